from dataclasses import dataclass


@dataclass
class Pair:
    name: str
    value: str


@dataclass
class Error:
    kind: str
    message: str

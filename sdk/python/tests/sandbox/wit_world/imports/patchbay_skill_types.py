from dataclasses import dataclass
from typing import Any

from wit_world.imports.patchbay_host_types import Pair as Pair


@dataclass
class Tool:
    name: str
    description: str
    input_schema: str
    extra: list[Any]


@dataclass
class Blob:
    media_type: str
    data: bytes


@dataclass
class Link:
    path: str
    media_type: str


@dataclass
class Content_Text:
    value: str


@dataclass
class Content_Json:
    value: str


@dataclass
class Content_Blob:
    value: Blob


@dataclass
class Content_Link:
    value: Link


@dataclass
class Failure:
    kind: str
    message: str

"""The skill `same` in Python. skill.rs says what each tool does."""

from typing import Annotated, Any

from patchbay_sdk import Blob, Failure, Json, Link, Text, tool

SAFE = 2**53 - 1
Safe = Annotated[int, {"minimum": -SAFE, "maximum": SAFE}]
Digits = Annotated[str, {"pattern": "^-?[0-9]{1,19}$"}]


def too_large() -> Failure:
    return Failure("overflow", "the sum is too large")


def has_64_bits(number: int) -> bool:
    return -(2**63) <= number < 2**63


def read(digits: str) -> int:
    number = int(digits)
    if not has_64_bits(number):
        raise Failure("overflow", f"{digits} has more than 64 bits")
    return number


@tool
def echo(text: str) -> str:
    """Returns the text."""
    return text


@tool
def wrap(text: str) -> dict[str, Any]:
    """Returns the text as a key and a value of JSON."""
    return {"list": [None, True, False, [], {}, "", text], "text": {text: "key"}}


@tool
def measure(text: str) -> dict[str, int]:
    """Counts bytes and code points, and hashes the bytes."""
    data = text.encode()
    value = 2166136261
    for byte in data:
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return {"bytes": len(data), "hash": value, "points": len(text)}


@tool
def add(a: Safe, b: Safe) -> dict[str, int]:
    """Adds two integers."""
    if abs(a + b) > SAFE:
        raise too_large()
    return {"sum": a + b}


@tool
def add64(a: Digits, b: Digits) -> str:
    """Adds two integers of 64 bits that are written as strings."""
    total = read(a) + read(b)
    if not has_64_bits(total):
        raise too_large()
    return str(total)


@tool
def pieces(text: str) -> list[Text | Json | Blob | Link]:
    """Returns one content of each kind."""
    return [Text(text), Json(text), Blob("text/x-same", text.encode()), Link("a/b.txt", "text/plain")]


@tool
def fail(kind: str, message: str) -> str:
    """Fails."""
    raise Failure(kind, message)

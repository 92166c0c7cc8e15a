"""The values that a tool can return besides plain Python data."""

from dataclasses import dataclass
from typing import Any, Union


@dataclass(frozen=True)
class Text:
    """Plain text."""

    text: str


@dataclass(frozen=True)
class Json:
    """One JSON value: anything that `json.dumps` accepts, and dataclasses. Use it where a plain value would become text."""

    value: Any


@dataclass(frozen=True)
class Blob:
    """Binary data. A parameter of the type `list[Blob]` receives the attachments of a call."""

    media_type: str
    data: bytes


@dataclass(frozen=True)
class Link:
    """A file of the workspace, by its relative path."""

    path: str
    media_type: str


Content = Union[Text, Json, Blob, Link]
"""One piece of a tool's result."""

"""Converts a tool's return value to content."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Optional

from ._content import Blob, Content, Json, Link, Text
from ._errors import Failure

_CONTENT = (Text, Json, Blob, Link)
_INSTEAD = {
    "set": "return a list, such as sorted(...)",
    "frozenset": "return a list, such as sorted(...)",
    "bytes": "return Blob(media_type, data), or decode it",
    "bytearray": "return Blob(media_type, bytes(data)), or decode it",
    "coroutine": "write `def`, not `async def`",
    "generator": "return list(...)",
    "map": "return list(...)",
    "filter": "return list(...)",
    "range": "return list(...)",
    "dict_keys": "return list(...)",
    "dict_values": "return list(...)",
    "datetime": "return its isoformat()",
    "date": "return its isoformat()",
    "Decimal": "return str(...)",
}


def contents(value: Any, tool: str) -> list[Content]:
    """Returns the content of a result. Raises a failure that names the tool if it has none."""
    if isinstance(value, str):
        value = Text(value)
    if isinstance(value, list) and any(isinstance(item, _CONTENT) for item in value):
        other = next((item for item in value if not isinstance(item, (str, *_CONTENT))), None)
        if other is not None:
            raise _wrong(tool, f"returned a list of content with a {_type(other)} in it: wrap it in Json(...)")
        pieces = [Text(item) if isinstance(item, str) else item for item in value]
    else:
        pieces = [value if isinstance(value, _CONTENT) else Json(value)]
    return [_checked(piece, tool) for piece in pieces]


def encode(value: Any, what: str) -> str:
    """Returns compact JSON text. `what` begins the message of the `TypeError` for a value that has none."""

    def other(item: Any) -> Any:
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
        if isinstance(item, Mapping):
            return dict(item)
        instead = _INSTEAD.get(type(item).__name__)
        within = what if item is value else f"{what} with a {_type(item)} in it"
        raise TypeError(f"{within}, which has no JSON form" + (f": {instead}" if instead else ""))

    try:
        text = json.dumps(value, default=other, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        reason = "it contains itself" if "Circular" in str(error) else "NaN and infinity are not JSON: use None"
        raise TypeError(f"{what}, which has no JSON form: {reason}") from None
    problem = _not_unicode(text)
    if problem:
        raise TypeError(f"{what} {problem}")
    return text


def _checked(piece: Content, tool: str) -> Content:
    if isinstance(piece, Text):
        _check_text(piece.text, tool, "Text(text)")
    elif isinstance(piece, Json):
        try:
            return Json(encode(piece.value, f"returned a {_type(piece.value)}"))
        except TypeError as error:
            raise _wrong(tool, str(error)) from None
    elif isinstance(piece, Blob):
        _check_text(piece.media_type, tool, "Blob(media_type, ...)")
        if not isinstance(piece.data, (bytes, bytearray, memoryview)):
            raise _wrong(tool, f"returned a Blob whose data is a {_type(piece.data)}: it must be bytes")
        return Blob(piece.media_type, bytes(piece.data))
    else:
        _check_text(piece.path, tool, "Link(path, ...)")
        _check_text(piece.media_type, tool, "Link(..., media_type)")
    return piece


def _check_text(text: Any, tool: str, where: str) -> None:
    if not isinstance(text, str):
        raise _wrong(tool, f"returned {where} with a {_type(text)}: it must be a str")
    problem = _not_unicode(text)
    if problem:
        raise _wrong(tool, f"returned a text {problem}")


def _not_unicode(text: str) -> Optional[str]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"with half of a surrogate pair ({text[error.start]!r}), which is not valid Unicode"
    return None


def _type(value: Any) -> str:
    return type(value).__name__


def _wrong(tool: str, what: str) -> Failure:
    return Failure("failed", f"tool '{tool}' {what}")

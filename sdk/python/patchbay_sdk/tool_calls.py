"""Calls other tools in parallel: `start` returns immediately, `wait` blocks. Needs the capability `tools`.

At most eight calls run at a time, and they share your remaining memory: `gather` takes care of both. Calls
that are still running when your tool returns are cancelled.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from . import _host, _result
from ._content import Blob, Content, Json, Link, Text
from ._errors import HostError

_CALLS = _host.Interface("tool-calls", "tool_calls")


@dataclass(frozen=True)
class Request:
    """A call: the tool's full name and its input object."""

    tool: str
    input: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """How a call ended: either with content, or with an error, whose kind may also be `cancelled` or the tool's own."""

    id: int
    content: Sequence[Content] = ()
    error: Optional[HostError] = None

    def text(self) -> str:
        """Returns the content as text, or raises the error."""
        if self.error:
            raise self.error
        return "\n".join(_text(piece) for piece in self.content)


def start(requests: Iterable[Request]) -> list[int]:
    """Starts calls and returns their ids, in order. On an error, no call was started."""
    ids: list[int] = _CALLS.call("start", [_request(request) for request in requests])
    return ids


def wait() -> list[Outcome]:
    """Blocks until a call has ended. Returns all calls that have ended since, sorted by id; an empty list if none is running."""
    return [_outcome(outcome) for outcome in _CALLS.call("wait")]


def cancel(ids: Iterable[int]) -> None:
    """Cancels calls. `wait` still returns them."""
    _CALLS.call("cancel", list(ids))


def gather(requests: Iterable[Request], *, at_once: int = 4) -> list[Outcome]:
    """Runs calls and returns their outcomes in the order of the requests.

    Args:
        at_once: How many run at a time, at most 8. Each gets an equal part of the memory that is left, and a tool in Python
            needs 16 MiB of it: if calls fail for lack of memory, use a smaller number.
    """
    if not 1 <= at_once <= 8:
        raise ValueError(f"at_once must be from 1 to 8, not {at_once}")
    waiting = list(requests)
    order: list[int] = []
    ended: dict[int, Outcome] = {}
    while waiting or len(ended) < len(order):
        room = at_once - (len(order) - len(ended))
        if waiting and room:
            order += start(waiting[:room])
            del waiting[:room]
        outcomes = wait()
        if not outcomes:
            break
        ended.update((outcome.id, outcome) for outcome in outcomes)
    return [ended[id] for id in order if id in ended]


def _request(request: Request) -> Any:
    input = _result.encode(request.input, f"the input of {request.tool} is a {type(request.input).__name__}")
    return _CALLS.record("Request", tool=_host.text(request.tool, "tool"), input=input, extra=[])


def _outcome(outcome: Any) -> Outcome:
    answer = outcome.answer
    if type(answer).__name__ == "Err":
        return Outcome(outcome.id, error=HostError(answer.value.kind, answer.value.message))
    return Outcome(outcome.id, [_content(content) for content in answer.value])


def _content(content: Any) -> Content:
    case, value = type(content).__name__, content.value
    if case == "Content_Json":
        return Json(json.loads(value))
    if case == "Content_Blob":
        return Blob(value.media_type, value.data)
    if case == "Content_Link":
        return Link(value.path, value.media_type)
    # A case that a later host may add has a name and a text.
    return Text(value if isinstance(value, str) else value.value)


def _text(piece: Content) -> str:
    if isinstance(piece, Text):
        return piece.text
    if isinstance(piece, Json):
        return _result.encode(piece.value, "the content")
    return f"[{piece.media_type}]"

"""The running call.

Unavailable to a call that is granted nothing besides `workspace-read`: it depends only on its input and files.
"""

from dataclasses import dataclass
from typing import Mapping

from . import _host

_CALL = _host.Interface("call", "call")


@dataclass(frozen=True)
class CallInfo:
    """`id` is the same for each attempt at one call, and no other call has it: use it as an idempotency key."""

    id: str
    attempt: int
    extra: Mapping[str, str]


def info() -> CallInfo:
    """Returns facts about the call."""
    info = _CALL.call("info")
    return CallInfo(info.id, info.attempt, _host.extra(info.extra))


def remaining(limit: str) -> int:
    """Returns how much is left of `time-ms`, `host-calls`, `output-bytes` or `inference-tokens`."""
    left: int = _CALL.call("remaining", _host.text(limit, "limit"))
    return left

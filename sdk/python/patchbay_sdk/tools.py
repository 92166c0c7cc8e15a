"""Calls another tool of the session. Needs the capability `tools`.

The called tool has this call's remaining limits and its own skill's grants. Calls are at most four deep.
"""

from typing import Any

from . import _host, _result

_TOOLS = _host.Interface("tools", "tools")


def call(tool: str, /, **arguments: Any) -> str:
    """Calls a tool by its full name, such as `SKILL__TOOL`, and returns its answer as text.

    If the answer is JSON, `json.loads` reads it.
    """
    return call_with(tool, arguments)


def call_with(tool: str, input: Any) -> str:
    """Calls a tool with an input object, for arguments whose names are not valid in Python."""
    answer: str = _TOOLS.call("call", _host.text(tool, "tool"), _result.encode(input, f"input is a {type(input).__name__}"))
    return answer

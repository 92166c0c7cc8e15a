"""The tools that this call may call. Needs the capability `tools`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from . import _host

_INDEX = _host.Interface("tool-index", "tool_index")
_PAGE = 100


@dataclass(frozen=True)
class ToolInfo:
    """A tool by its full name, such as `SKILL__TOOL`. `extra` has its annotations, such as `read-only`."""

    name: str
    description: str
    input_schema: dict[str, Any]
    extra: Mapping[str, str]


def entries(*, after: Optional[str] = None) -> Iterator[ToolInfo]:
    """Yields the tools, sorted by the bytes of their names."""
    while True:
        page = _INDEX.call("entries", after, _PAGE)
        yield from map(_info, page)
        if not page:
            return
        after = page[-1].name


def find(query: str, *, limit: int = 10) -> list[ToolInfo]:
    """Returns the tools that match the query best, the best first."""
    return [_info(tool) for tool in _INDEX.call("find", _host.text(query, "query"), _host.number(limit, "limit"))]


def _info(tool: Any) -> ToolInfo:
    return ToolInfo(tool.name, tool.description, json.loads(tool.input_schema), _host.extra(tool.extra))

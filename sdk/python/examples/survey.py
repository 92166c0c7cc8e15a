"""Calls other tools. SKILL.md requests:

capabilities:
  - name: tools
    reason: asks other tools
"""

import json
from typing import Any

from patchbay_sdk import progress, tool, tool_calls, tool_index, tools


@tool
def ask(tool_name: str, input: dict[str, Any]) -> str:
    """Calls a tool by its full name and returns its answer.

    Args:
        tool_name: Such as `SKILL__TOOL`.
        input: Its input.
    """
    return tools.call_with(tool_name, input)


@tool
def ask_all(query: str, input: dict[str, Any]) -> dict[str, str]:
    """Calls all tools that match a query, in parallel, with the same input. Returns an answer or an error for each.

    Args:
        query: Words that describe the tools.
        input: Their input.
    """
    names = [found.name for found in tool_index.find(query, limit=8)]
    progress.report(f"asking {json.dumps(names)}\n")
    outcomes = tool_calls.gather(tool_calls.Request(name, input) for name in names)
    return {
        name: f"error: {outcome.error}" if outcome.error else outcome.text()
        for name, outcome in zip(names, outcomes, strict=True)
    }

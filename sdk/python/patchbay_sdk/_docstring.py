"""Reads docstrings in Google's style."""

import inspect
import re
from dataclasses import dataclass, field
from typing import Optional

_ARGUMENTS = {"Args", "Arguments", "Parameters", "Attributes"}
# Not useful to a model.
_DROPPED = {"Raises", "Example", "Examples", "Todo"}
_KEPT = {"Returns", "Yields", "Note", "Notes"}
_HEADING = re.compile(rf"^({'|'.join(sorted(_ARGUMENTS | _DROPPED | _KEPT))}):\s*$")
_ARGUMENT = re.compile(r"^(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


@dataclass
class Docstring:
    """The description, and the description of each argument."""

    description: str = ""
    arguments: dict[str, str] = field(default_factory=dict)


def parse(text: Optional[str]) -> Docstring:
    """Splits a docstring. Sections such as `Raises:` are left out of the description."""
    result = Docstring()
    if not text:
        return result
    kept: list[str] = []
    section = ""
    body: list[str] = []

    def close() -> None:
        if section in _ARGUMENTS:
            result.arguments.update(_arguments(body))
        elif section in _KEPT:
            kept.append(f"{section}: {' '.join(' '.join(body).split())}")
        elif not section:
            kept.extend(body)

    for line in inspect.cleandoc(text).splitlines():
        heading = _HEADING.match(line)
        # A section ends where text begins again in the first column.
        if heading or (section and line and not line[0].isspace()):
            close()
            section = heading.group(1) if heading else ""
            body = [] if heading else [line]
        else:
            body.append(line)
    close()
    result.description = _paragraphs(kept)
    return result


def _arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc("\n" + "\n".join(lines)).splitlines():
        match = _ARGUMENT.match(line)
        if match:
            name = match.group(1)
            found[name] = match.group(2).strip()
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _paragraphs(lines: list[str]) -> str:
    """Joins the wrapped lines of a paragraph. Lists and indented lines are kept."""
    out: list[str] = []
    for line in lines:
        wrapped = line and not line[0].isspace() and not line.startswith(("-", "*", "Returns:", "Yields:", "Note"))
        if out and out[-1] and wrapped and not out[-1][0].isspace() and not out[-1].startswith(("-", "*")):
            out[-1] += " " + line.rstrip()
        else:
            out.append(line.rstrip())
    return "\n".join(out).strip()

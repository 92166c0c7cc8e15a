"""Finds mistakes in a skill's sources without running them.

`patchbay plugin build` runs this in plain CPython, because it takes a tenth of a second, and the build takes ten seconds. Nothing
of the skill is imported, so a stranger's skill is not run outside of the sandbox. Mistakes that only show when the modules run are found by
`patchbay_sdk.entry`, in the sandbox.
"""

import os
from dataclasses import dataclass, field

from ._imports import check_imports
from ._sources import Module, SourceError, load
from ._tools import check_tools

# If there are more mistakes, the others are shown after these are fixed.
_MOST = 10


@dataclass
class Report:
    """The mistakes, each with file and line."""

    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(folder: str) -> Report:
    """Checks `skill.py` in `folder`, and the modules beside it that it imports."""
    report = Report()
    if not os.path.exists(os.path.join(folder, "skill.py")):
        report.errors.append("there is no skill.py: the tools are declared there, with @tool")
        return report
    try:
        modules = load(folder)
    except SourceError as error:
        report.errors.append(str(error))
        return report
    check_imports(folder, modules, report.errors, report.notes)
    check_tools(modules, report.errors)
    report.errors = report.errors[:_MOST]
    return report


__all__ = ["Module", "Report", "check"]

"""Files of the workspace. SKILL.md requests:

capabilities:
  - name: workspace-read
    reason: looks for TODO
  - name: workspace-write
    reason: writes TODO.md
"""

from patchbay_sdk import Link, Text, tool, workspace, workspace_search

FOUND = r"\b(TODO|FIXME)\b"


@tool(kind="search", read_only=True)
def todos(glob: str = "**") -> list[str]:
    """Lists the lines with TODO or FIXME, as `PATH:LINE: TEXT`.

    Args:
        glob: Which files are searched, such as `src/**/*.py`.
    """
    # One call to the host, which searches in parallel: much faster than reading the files here.
    found = workspace_search.search(FOUND, glob, "!TODO.md", max_lines=500)
    lines = [f"{file.path}:{line.number}: {line.text.strip()}" for file in found.files for line in file.lines]
    if found.stopped:
        lines.append(f"[more follow: stopped at {found.stopped}]")
    return lines


@tool(kind="edit")
def collect() -> list[Text | Link]:
    """Writes all lines with TODO or FIXME to TODO.md."""
    lines = todos()
    before = sum(1 for _ in workspace.walk("TODO.md"))
    workspace.write("TODO.md", "".join(f"- {line}\n" for line in lines))
    verb = "Replaced" if before else "Wrote"
    return [Text(f"{verb} TODO.md with {len(lines)} lines."), Link("TODO.md", "text/markdown")]

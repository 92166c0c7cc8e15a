"""Runs a `skill.py` through the entry as a component does, in a separate process, with stand-ins for the bindings."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

_HERE = Path(__file__).parent
_RUN = """
import json, sys
from patchbay_sdk import entry
from wit_world.imports import log

skill = entry.Skill()
listed = [tool.__dict__ | {"extra": {pair.name: pair.value for pair in tool.extra}} for tool in skill.tools()]
result, failure = None, None
if len(sys.argv) > 1:
    try:
        result = [(type(piece).__name__, str(getattr(piece, "value", ""))) for piece in skill.call(*sys.argv[1:], [])]
    except entry._Err as error:
        failure = (error.value.kind, error.value.message)
sys.__stdout__.write(json.dumps({"tools": listed, "result": result, "failure": failure, "log": log.LINES}))
"""


@dataclass
class Run:
    """The result of a run. `error` is the output of a failed build."""

    tools: list[dict[str, Any]]
    result: Optional[list[list[str]]]
    failure: Optional[list[str]]
    log: list[list[str]]
    error: str


def run(source: str, tool: str = "", input: str = "{}", files: Optional[dict[str, str]] = None) -> Run:
    """Builds a skill, lists its tools, and calls one of them, if named."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"skill.py": source, **(files or {})}.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        paths = [folder, str(_HERE.parent), str(_HERE / "sandbox")]
        code = f"import sys; sys.path[:0] = {paths!r}\n{_RUN}"
        command = [sys.executable, "-c", code, *([tool, input] if tool else [])]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=folder, timeout=60)
    if done.returncode:
        return Run([], None, None, [], done.stderr)
    return Run(**json.loads(done.stdout), error="")

"""The module that componentize-py compiles: it imports the author's `skill` and exports its tools.

Everything that can be wrong with a declaration is found here, while the skill is built. The message is written to standard
error, between the compiler's own lines.
"""

import os
import sys
from typing import Any, NoReturn

from . import _guards, _host, _source, _traceback, log
from ._content import Blob, Content, Json, Link, Text
from ._errors import DeclarationError, Failure
from ._result import contents, encode
from ._tool import DECLARED, Tool, compile_tools

_guards.install()


def _stop(message: str) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.write(message + "\n")
    sys.stderr.flush()
    # Not sys.exit(), because the interpreter would print a message about it.
    os._exit(1)


def _tools() -> dict[str, Tool]:
    try:
        import skill  # type: ignore[import-not-found]  # noqa: F401
    except DeclarationError as error:
        _stop(f"error: {error}")
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "skill":
            _stop("error: there is no skill.py: the tools are declared there, with @tool")
        lines = _traceback.lines(error) or [_traceback.summary(error)]
        if isinstance(error, SyntaxError):
            lines = [f"{_source.short(error.filename or '')}:{error.lineno}: {error.msg}", (error.text or "").rstrip()]
        if isinstance(error, ModuleNotFoundError):
            lines.append(
                f"note: '{error.name}' is neither in this project nor in Python's standard library. Packages must be pure "
                "Python; for requests use patchbay_sdk.http"
            )
        place = (_traceback.location(error) or "").partition(",")[0]
        head = f"{place}: " if place else ""
        _stop("\n".join([f"error: {head}skill.py cannot be imported", *lines]))
    try:
        tools = compile_tools(DECLARED)
    except DeclarationError as error:
        _stop(f"error: {error}")
    if not tools:
        _stop("error: skill.py declares no tool: put @tool above a function")
    return tools


_TOOLS = _tools()
# From the generated bindings, which exist only in the sandbox.
_skill_types = _host.Interface("patchbay-skill-types", "entry")
_Err = __import__("componentize_py_types").Err
_guards.seal()


class Skill:
    """The export `patchbay:skill/skill`."""

    def tools(self) -> list[Any]:
        _guards.start()
        pair, tool = _skill_types.type("Pair"), _skill_types.type("Tool")
        return [
            tool(each.name, each.description, encode(each.schema, "the schema"), [pair(*item) for item in each.extra.items()])
            for each in _TOOLS.values()
        ]

    def call(self, tool: str, input: str, attachments: list[Any]) -> list[Any]:
        _guards.start()
        try:
            return [_lower(content) for content in _run(tool, input, attachments)]
        except Failure as failure:
            raise _Err(_skill_types.record("Failure", kind=_clean(failure.kind), message=_clean(failure.message))) from None
        finally:
            _guards.end_lines()


def _run(name: str, input: str, attachments: list[Any]) -> list[Content]:
    tool = _TOOLS.get(name)
    if tool is None:
        raise Failure("unknown-tool", f"this skill has no tool '{name}'")
    try:
        value = tool.run(input, [Blob(each.media_type, each.data) for each in attachments])
    except Failure:
        raise
    except BaseException as error:
        raise _failed(error) from None
    return contents(value, name)


def _failed(error: BaseException) -> Failure:
    """Logs the traceback of an error that the tool did not expect, and returns the failure that ends the call."""
    _guards.end_lines()
    for line in _traceback.lines(error):
        log.write("error", _clean(line))
    location = _traceback.location(error)
    return Failure("failed", _traceback.summary(error) + (f" ({location})" if location else ""))


def _lower(content: Content) -> Any:
    if isinstance(content, Text):
        return _skill_types.type("Content_Text")(content.text)
    if isinstance(content, Json):
        return _skill_types.type("Content_Json")(content.value)
    if isinstance(content, Blob):
        blob = _skill_types.record("Blob", media_type=content.media_type, data=content.data)
        return _skill_types.type("Content_Blob")(blob)
    assert isinstance(content, Link)
    link = _skill_types.record("Link", path=content.path, media_type=content.media_type)
    return _skill_types.type("Content_Link")(link)


def _clean(text: Any) -> str:
    """Makes any value valid Unicode: the bindings trap at anything else."""
    return str(text).encode("utf-8", "replace").decode()

"""Checks tool declarations, as far as possible from the source. The messages are the same as in `patchbay_sdk._tool`."""

import ast
import builtins
import re
import typing
from collections.abc import Iterator
from typing import Optional

from .. import _docstring
from .._schema import _INSTEAD as _HINTS_INSTEAD
from .._tool import _NAME
from ._imports import SDK
from ._sources import Function, Module, bound_names, own_nodes


def check_tools(modules: list[Module], errors: list[str]) -> None:
    """Checks the functions with @tool, and calls of `Failure`."""
    places: dict[str, str] = {}
    may_be_hidden = False
    for module in modules:
        scope = _Scope(module)
        may_be_hidden = may_be_hidden or scope.hides_tools()
        for function, decorator in scope.tools():
            tool = _tool_name(function, decorator)
            at = f"{module.file}:{function.lineno}: tool '{tool}'"
            errors.extend(f"{at}{problem}" for problem in _problems(function, tool, scope))
            if tool in places:
                errors.append(f"{at} is declared twice, first at {places[tool]}: rename one, or write @tool(name=...)")
            places.setdefault(tool, f"{module.file}:{function.lineno}")
        errors.extend(f"{module.file}:{line}: {problem}" for line, problem in scope.other_problems())
    if not places and not may_be_hidden and not errors:
        errors.append("skill.py declares no tool: put @tool above a function")


class _Scope:
    """A module, and the names in it."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.names = bound_names(module.tree)
        self.decorators = module.bound_from(SDK, "tool")
        self.sdk = {each.bound for each in module.imports if each.module == SDK and each.name is None}
        self.failures = module.bound_from(SDK, "Failure")
        self.classes = {node.name: node for node in module.tree.body if isinstance(node, ast.ClassDef)}

    def is_defined(self, name: str) -> bool:
        return self.names is None or name in self.names or hasattr(builtins, name)

    def is_tool(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr == "tool" and isinstance(node.value, ast.Name) and node.value.id in self.sdk
        if not isinstance(node, ast.Name):
            return False
        # With `from patchbay_sdk import *`, or without any import, `tool` is the SDK's, too.
        return node.id in self.decorators or (node.id == "tool" and (self.names is None or "tool" not in self.names))

    def tools(self) -> Iterator[tuple[Function, ast.expr]]:
        for node in ast.walk(self.module.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for decorator in node.decorator_list:
                    if self.is_tool(decorator.func if isinstance(decorator, ast.Call) else decorator):
                        yield node, decorator

    def hides_tools(self) -> bool:
        """Returns whether `tool` is also used as a value, which means that tools may be declared in another way."""
        used = [node for node in ast.walk(self.module.tree) if isinstance(node, ast.expr) and self.is_tool(node)]
        return len(used) > sum(1 for _ in self.tools())

    def other_problems(self) -> Iterator[tuple[int, str]]:
        reported = False
        for function, _ in self.tools():
            if not self.is_defined("tool") and not self.sdk and not self.decorators and not reported:
                reported = True
                line = function.decorator_list[0].lineno
                yield line, "'tool' is not defined: write `from patchbay_sdk import tool`"
        for node in ast.walk(self.module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.failures:
                is_open = any(isinstance(each, ast.Starred) for each in node.args) or any(not each.arg for each in node.keywords)
                if not is_open and len(node.args) + len(node.keywords) < 2:
                    message = ast.unparse(node.args[0]) if node.args else '"what is wrong"'
                    yield node.lineno, f'a Failure has a kind and a message: write Failure("invalid-input", {message})'


def _tool_name(function: Function, decorator: ast.expr) -> str:
    for keyword in decorator.keywords if isinstance(decorator, ast.Call) else []:
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
            return keyword.value.value
    return function.name


def _problems(function: Function, tool: str, scope: _Scope) -> Iterator[str]:
    if isinstance(function, ast.AsyncFunctionDef):
        yield " is async, and skills are synchronous: write `def`, not `async def`"
        return
    if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own_nodes(function)):
        yield " has a `yield`: return a list, and report partial output with progress.report()"
    if not _NAME.fullmatch(tool) or "__" in tool:
        likely = re.sub(r"[^a-z0-9-]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", tool).lower()).strip("_-")[:64] or "run"
        yield f": a tool's name has 1 to 64 of a-z, 0-9, '_' and '-', without '__': write @tool(name=\"{likely}\")"
    arguments = function.args
    for each in (arguments.vararg, arguments.kwarg):
        if each:
            yield f", parameter '{each.arg}': a tool has a fixed list of arguments: name each, or use `dict[str, ...]`"
    for each in arguments.posonlyargs:
        yield f", parameter '{each.arg}': arguments are passed by name: remove the `/`"
    for each in (*arguments.args, *arguments.kwonlyargs):
        if each.annotation is None:
            yield f", parameter '{each.arg}' has no type hint: write `{each.arg}: str`, or whatever it is"
            continue
        problem = _wrong_hint(each.annotation, scope)
        if problem:
            yield f", parameter '{each.arg}': {problem}"
    known = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    described = _docstring.parse(ast.get_docstring(function)).arguments
    unknown = next((name for name in described if name not in known), None)
    if unknown:
        yield f": the docstring describes '{unknown}', which is not a parameter"


def _wrong_hint(hint: ast.expr, scope: _Scope) -> Optional[str]:
    undefined = next((node.id for node in ast.walk(hint) if isinstance(node, ast.Name) and not scope.is_defined(node.id)), None)
    if undefined:
        module = "typing" if undefined in typing.__all__ else SDK if undefined == "Blob" else None
        advice = f": write `from {module} import {undefined}`" if module else ""
        return f"'{undefined}' is not defined{advice}"
    if not isinstance(hint, ast.Name):
        return None
    is_builtin = hasattr(builtins, hint.id) and scope.names is not None and hint.id not in scope.names
    instead = _HINTS_INSTEAD.get(hint.id)
    if is_builtin and instead:
        return f"`{hint.id}` has no JSON form: write {instead}"
    own = scope.classes.get(hint.id)
    if own and not own.bases and not own.decorator_list and not own.keywords:
        return f"the class {hint.id} has no JSON form: make it a @dataclass or a TypedDict"
    return None

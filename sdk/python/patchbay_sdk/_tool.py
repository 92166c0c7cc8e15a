"""The decorator `tool`, and the collected tools."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Optional, TypeVar, get_args, overload

from . import _docstring
from ._content import Blob
from ._errors import DeclarationError, Failure
from ._schema import JsonSchema, Shape, described, hints_of, is_optional, object_schema, shape_of
from ._source import place

Kind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Declaration:
    """A decorated function."""

    function: Callable[..., Any]
    name: str
    extra: Mapping[str, str]

    @property
    def at(self) -> str:
        """Position and name: every error about the function begins with it."""
        return f"{place(self.function.__code__)}: tool '{self.name}'"


@dataclass(frozen=True)
class Tool:
    """A tool that can be listed and called."""

    name: str
    description: str
    schema: JsonSchema
    extra: Mapping[str, str]
    function: Callable[..., Any]
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    # Parameters that are None if the input leaves them out.
    absent: tuple[str, ...] = ()
    attachments: Optional[str] = None

    def run(self, input: str, attachments: list[Blob]) -> Any:
        """Calls the function with a JSON object as its arguments."""
        try:
            given = json.loads(input)
            arguments: dict[str, Any] = {name: self.shapes[name].value(value) for name, value in given.items()}
        except KeyError as error:
            raise Failure("invalid-input", f"tool '{self.name}' has no argument {error}") from None
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise Failure("invalid-input", f"the input of tool '{self.name}' is not valid: {error}") from None
        if self.attachments:
            arguments[self.attachments] = attachments
        return self.function(**{**dict.fromkeys(self.absent), **arguments})


DECLARED: list[Declaration] = []


@overload
def tool(function: _Function, /) -> _Function: ...
@overload
def tool(
    *,
    name: Optional[str] = None,
    title: Optional[str] = None,
    kind: Optional[Kind] = None,
    read_only: Optional[bool] = None,
    deferred: Optional[bool] = None,
    extra: Optional[Mapping[str, str]] = None,
) -> Callable[[_Function], _Function]: ...
def tool(
    function: Optional[Callable[..., Any]] = None,
    /,
    *,
    name: Optional[str] = None,
    title: Optional[str] = None,
    kind: Optional[Kind] = None,
    read_only: Optional[bool] = None,
    deferred: Optional[bool] = None,
    extra: Optional[Mapping[str, str]] = None,
) -> Any:
    """Makes a function a tool of the skill. The function itself is not changed, so tests can call it.

    Args:
        name: The tool's name, if it is not the function's.
        title: A human-readable name.
        kind: What the tool does, for editors.
        read_only: The tool changes nothing. The host then denies it every capability with effects.
        deferred: Models do not see the tool until they search for it. For tools that few conversations need.
        extra: Further annotations: `destructive`, `idempotent`, `open-world`, `output-schema`, `examples`.
    """
    notes = {"title": title, "kind": kind, "read-only": _word(read_only), "deferred": _word(deferred)}
    annotations = {key: value for key, value in notes.items() if value is not None} | dict(extra or {})

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.isfunction(function):
            raise DeclarationError(f"@tool is for functions, not for {function!r}: put it directly above a `def`")
        declaration = Declaration(function, name or function.__name__, annotations)
        _check(declaration)
        DECLARED.append(declaration)
        return function

    return declare if function is None else declare(function)


def _word(value: Optional[bool]) -> Optional[str]:
    return None if value is None else "true" if value else "false"


def _check(declaration: Declaration) -> None:
    at, function, name = declaration.at, declaration.function, declaration.name
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise DeclarationError(f"{at} is async, and skills are synchronous: write `def`, not `async def`")
    if inspect.isgeneratorfunction(function):
        raise DeclarationError(f"{at} has a `yield`: return a list, and report partial output with progress.report()")
    if not _NAME.fullmatch(name) or "__" in name:
        likely = re.sub(r"[^a-z0-9-]+", "_", name.lower()).strip("_-")[:64] or "run"
        raise DeclarationError(
            f"{at}: a tool's name has 1 to 64 of a-z, 0-9, '_' and '-', without '__': write @tool(name=\"{likely}\")"
        )
    kind = declaration.extra.get("kind")
    if kind is not None and kind not in get_args(Kind):
        raise DeclarationError(f"{at}: kind {kind!r} is unknown: use one of {', '.join(get_args(Kind))}")
    for key, value in declaration.extra.items():
        if not isinstance(value, str):
            raise DeclarationError(f"{at}: annotation {key!r} is {value!r}: write it as a string")


def compile_tools(declarations: Iterable[Declaration]) -> dict[str, Tool]:
    """Returns the tools by name, with their schemas."""
    tools: dict[str, Tool] = {}
    places: dict[str, str] = {}
    for declaration in declarations:
        if declaration.name in tools:
            raise DeclarationError(
                f"{declaration.at} is declared twice, first at {places[declaration.name]}: rename one, or write @tool(name=...)"
            )
        tools[declaration.name] = _compile(declaration)
        places[declaration.name] = place(declaration.function.__code__)
    return tools


def _compile(declaration: Declaration) -> Tool:
    function = declaration.function
    docstring = _docstring.parse(function.__doc__)
    hints = hints_of(function, declaration.at)
    properties: dict[str, JsonSchema] = {}
    shapes: dict[str, Shape] = {}
    required: list[str] = []
    absent: list[str] = []
    attachments: Optional[str] = None
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        at = f"{declaration.at}, parameter '{name}'"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise DeclarationError(f"{at}: a tool has a fixed list of arguments: name each, or use `dict[str, ...]`")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DeclarationError(f"{at}: arguments are passed by name: remove the `/`")
        if name not in hints:
            raise DeclarationError(f"{at} has no type hint: write `{name}: str`, or whatever it is")
        if hints[name] == list[Blob]:
            attachments = name
            continue
        shape = shapes[name] = shape_of(hints[name], at)
        is_required = parameter.default is parameter.empty
        default = None if is_required else parameter.default
        properties[name] = described(shape.schema, docstring.arguments.get(name), default)
        if is_required:
            (absent if is_optional(hints[name]) else required).append(name)
    unknown = [name for name in docstring.arguments if name not in parameters]
    if unknown:
        raise DeclarationError(f"{declaration.at}: the docstring describes '{unknown[0]}', which is not a parameter")
    schema = object_schema(properties, required)
    return Tool(
        declaration.name,
        docstring.description,
        schema,
        declaration.extra,
        function,
        shapes,
        tuple(absent),
        attachments,
    )

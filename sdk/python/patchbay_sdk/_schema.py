"""Converts type hints to JSON Schema, and JSON to values of the hinted types."""

import dataclasses
import enum
import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, Union

from . import _docstring
from ._errors import DeclarationError

JsonSchema = dict[str, Any]

SUPPORTED = (
    "str, int, float, bool, list[T], dict[str, T], Literal[...], Optional[T], dataclasses, TypedDicts, "
    "Annotated[T, 'description'] and Any"
)

_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_INSTEAD = {
    "bytes": "`str`, or a parameter `attachments: list[Blob]` for binary data",
    "list": "`list[str]`, or whatever its items are",
    "dict": "`dict[str, str]`, or whatever its values are",
    "tuple": "`list[...]`: JSON has no tuples",
    "set": "`list[...]`: JSON has no sets",
    "frozenset": "`list[...]`: JSON has no sets",
    "object": "`Any`",
    "date": "`str`, and `date.fromisoformat` in the tool",
    "datetime": "`str`, and `datetime.fromisoformat` in the tool",
    "Path": "`str`: the path of a file in the workspace",
    "Decimal": "`str`, and `Decimal(...)` in the tool",
}


@dataclass(frozen=True)
class Shape:
    """A JSON Schema, and the conversion of a valid JSON value; None if no conversion is needed."""

    schema: JsonSchema
    decode: Optional[Callable[[Any], Any]] = None

    def value(self, json_value: Any) -> Any:
        return json_value if self.decode is None else self.decode(json_value)


def shape_of(hint: Any, at: str, parents: tuple[type, ...] = ()) -> Shape:
    """Returns the shape of a hint. `at` names the parameter or the field in errors; `parents` are the classes around it."""
    hint, schema = _unwrap(hint)
    shape = _bare(hint, at, parents)
    return Shape({**shape.schema, **schema}, shape.decode) if schema else shape


def is_optional(hint: Any) -> bool:
    """Returns whether None is among the values."""
    hint, _ = _unwrap(hint)
    return hint is type(None) or (_is_union(hint) and any(is_optional(member) for member in typing.get_args(hint)))


def hints_of(subject: Any, what: str) -> dict[str, Any]:
    """Returns the hints of a function or a class, with references resolved."""
    try:
        return typing.get_type_hints(subject, include_extras=True)
    except NameError as error:
        raise DeclarationError(f"{what}: a type hint uses a name that is not defined: {error}") from None
    except TypeError as error:
        raise DeclarationError(f"{what}: a type hint is not a type: {error}") from None


def object_schema(properties: Mapping[str, JsonSchema], required: Sequence[str]) -> JsonSchema:
    """Returns the schema of an object without other properties."""
    schema: JsonSchema = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False}


def described(schema: JsonSchema, description: Optional[str], default: Any = None) -> JsonSchema:
    """Adds a description, unless the hint has one, and the default, if it is plain JSON."""
    out = dict(schema)
    if description and "description" not in out:
        out["description"] = description
    if default is not None:
        try:
            json.dumps(default, allow_nan=False)
        except (TypeError, ValueError):
            return out
        out["default"] = default
    return out


def _unwrap(hint: Any) -> tuple[Any, JsonSchema]:
    """Unwraps a hint: Annotated, Required, NotRequired, NewType, type aliases."""
    schema: JsonSchema = {}
    while True:
        origin = typing.get_origin(hint)
        if origin is Annotated:
            hint, *notes = typing.get_args(hint)
            for note in notes:
                if isinstance(note, str):
                    schema.setdefault("description", note)
                elif isinstance(note, Mapping):
                    schema.update(note)
        elif getattr(origin, "_name", None) in ("Required", "NotRequired", "ReadOnly"):
            hint = typing.get_args(hint)[0]
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint, schema


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) is Union or isinstance(hint, types.UnionType)


def _bare(hint: Any, at: str, parents: tuple[type, ...]) -> Shape:
    if hint is Any:
        return Shape({})
    try:
        scalar = _SCALARS.get(hint)
    except TypeError:
        scalar = None
    if scalar:
        return Shape({"type": scalar}, {int: _integer, float: _number}.get(hint))
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return _literal(arguments, at)
    if _is_union(hint):
        return _union(arguments, at, parents)
    if origin in (list, Sequence) and len(arguments) == 1:
        item = shape_of(arguments[0], f"an item of {at}", parents)
        decode = item.decode
        return Shape({"type": "array", "items": item.schema}, decode and (lambda value: [decode(each) for each in value]))
    if origin in (dict, Mapping):
        return _dict(arguments, at, parents)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _dataclass(hint, at, parents)
    if typing.is_typeddict(hint):
        return _typed_dict(hint, at, parents)
    raise DeclarationError(f"{at}: {_unsupported(hint)}")


def _unsupported(hint: Any) -> str:
    name = _name(hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return f"the enum {name} has no JSON form: write `Literal[{', '.join(repr(case.value) for case in hint)}]`"
    origin = typing.get_origin(hint)
    instead = _INSTEAD.get(_name(hint if origin is None else origin))
    if instead:
        return f"`{name}` has no JSON form: write {instead}"
    if isinstance(hint, type):
        return f"the class {name} has no JSON form: make it a @dataclass or a TypedDict"
    return f"`{name}` is not supported. Supported are {SUPPORTED}"


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else repr(hint).replace("typing.", "")


def _integer(value: Any) -> Any:
    # In JSON Schema, 1.0 is an integer.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _literal(values: tuple[Any, ...], at: str) -> Shape:
    kinds: list[str] = []
    for value in values:
        kind = _SCALARS.get(type(value))
        if kind is None:
            raise DeclarationError(f"{at}: Literal[{value!r}] is not JSON: use strings, numbers, booleans or None")
        if kind not in kinds:
            kinds.append(kind)
    return Shape({"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(values)})


def _union(members: tuple[Any, ...], at: str, parents: tuple[type, ...]) -> Shape:
    plain = [member for member in members if member is not type(None)]
    shapes = [shape_of(member, at, parents) for member in plain]
    if len(shapes) == 1:
        decode = shapes[0].decode
    elif all(_converts_nothing(shape.schema) for shape in shapes):
        decode = None
    else:
        raise DeclarationError(
            f"{at}: only str, int, float, bool, None and Literals can be alternatives, because the value does not say which "
            "class it is: write one dataclass with optional fields"
        )
    schemas = [shape.schema for shape in shapes]
    if len(plain) < len(members):
        schemas.append({"type": "null"})
    nullable = decode and (lambda value: None if value is None else decode(value))
    return Shape(_any_of(schemas), nullable)


def _converts_nothing(schema: JsonSchema) -> bool:
    return isinstance(schema.get("type"), str) and schema["type"] not in ("object", "array") or "enum" in schema


def _any_of(schemas: list[JsonSchema]) -> JsonSchema:
    """Merges alternatives into one list of types where possible, because it is easier to read for models."""
    if all(set(schema) == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    first, *rest = schemas
    if rest == [{"type": "null"}] and isinstance(first.get("type"), str):
        nullable = {**first, "type": [first["type"], "null"]}
        return {**nullable, "enum": [*first["enum"], None]} if "enum" in first else nullable
    return {"anyOf": schemas}


def _dict(arguments: tuple[Any, ...], at: str, parents: tuple[type, ...]) -> Shape:
    if len(arguments) != 2 or arguments[0] is not str:
        raise DeclarationError(f"{at}: the keys of a JSON object are strings: write `dict[str, ...]`")
    value = shape_of(arguments[1], f"a value of {at}", parents)
    decode = value.decode
    return Shape(
        {"type": "object", "additionalProperties": value.schema},
        decode and (lambda given: {key: decode(each) for key, each in given.items()}),
    )


def _fields(cls: type, at: str, parents: tuple[type, ...]) -> Iterator[tuple[str, Any, Shape, Optional[str]]]:
    """Yields name, hint, shape and description of the fields."""
    if cls in parents:
        raise DeclarationError(f"{at}: {cls.__name__} contains itself, which is not supported: write `dict[str, Any]`")
    arguments = _docstring.parse(cls.__dict__.get("__doc__")).arguments
    for name, hint in hints_of(cls, at).items():
        yield name, hint, shape_of(hint, f"field '{name}' of {cls.__name__}", (*parents, cls)), arguments.get(name)


def _dataclass(cls: type, at: str, parents: tuple[type, ...]) -> Shape:
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    properties: dict[str, JsonSchema] = {}
    shapes: dict[str, Shape] = {}
    required: list[str] = []
    absent: list[str] = []
    for name, hint, shape, description in _fields(cls, at, parents):
        field = fields.get(name)
        if field is None:
            continue
        default = None if field.default is dataclasses.MISSING else field.default
        properties[name] = described(shape.schema, description, default)
        shapes[name] = shape
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            (absent if is_optional(hint) else required).append(name)

    def decode(value: Any) -> Any:
        given = {name: shapes[name].value(each) for name, each in value.items()}
        return cls(**{**dict.fromkeys(absent), **given})

    return Shape(object_schema(properties, required), decode)


def _typed_dict(cls: Any, at: str, parents: tuple[type, ...]) -> Shape:
    properties: dict[str, JsonSchema] = {}
    shapes: dict[str, Shape] = {}
    for name, _, shape, description in _fields(cls, at, parents):
        properties[name] = described(shape.schema, description)
        shapes[name] = shape
    required = [name for name in properties if name in cls.__required_keys__]

    def decode(value: Any) -> Any:
        return {name: shapes[name].value(each) for name, each in value.items()}

    converts = any(shape.decode for shape in shapes.values())
    return Shape(object_schema(properties, required), decode if converts else None)

"""From hints to schemas and back."""

import unittest
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

from patchbay_sdk import Blob, DeclarationError, Failure
from patchbay_sdk._schema import shape_of
from patchbay_sdk._tool import Declaration, Tool, compile_tools


@dataclass
class Place:
    """A place.

    Attributes:
        city: Its city.
    """

    city: str
    zip: Optional[str]
    tags: list[str] = field(default_factory=list)
    size: float = 1.0


@dataclass
class Loop:
    next: Optional["Loop"]


class Person(TypedDict, total=False):
    name: Annotated[str, "Their name."]


class Colour(Enum):
    RED = "red"


def compiled(function: Callable[..., Any], name: Optional[str] = None) -> Tool:
    (tool,) = compile_tools([Declaration(function, name or function.__name__, {})]).values()
    return tool


class Schema(unittest.TestCase):
    def test_hints(self) -> None:
        table: list[tuple[Any, Any]] = [
            (str, {"type": "string"}),
            (int, {"type": "integer"}),
            (float, {"type": "number"}),
            (bool, {"type": "boolean"}),
            (Any, {}),
            (list[int], {"type": "array", "items": {"type": "integer"}}),
            (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
            (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
            (Literal["a", 1], {"type": ["string", "integer"], "enum": ["a", 1]}),
            (Optional[str], {"type": ["string", "null"]}),
            (str | None, {"type": ["string", "null"]}),
            (Union[int, str], {"type": ["integer", "string"]}),
            (Optional[Literal["a"]], {"type": ["string", "null"], "enum": ["a", None]}),
            (Optional[list[str]], {"type": ["array", "null"], "items": {"type": "string"}}),
            (Annotated[str, "What."], {"type": "string", "description": "What."}),
            (Annotated[int, "What.", {"minimum": 1}], {"type": "integer", "description": "What.", "minimum": 1}),
            (
                Person,
                {
                    "type": "object",
                    "properties": {"name": {"type": "string", "description": "Their name."}},
                    "additionalProperties": False,
                },
            ),
            (
                Place,
                {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string", "description": "Its city."},
                        "zip": {"type": ["string", "null"]},
                        "tags": {"type": "array", "items": {"type": "string"}},
                        "size": {"type": "number", "default": 1.0},
                    },
                    "required": ["city"],
                    "additionalProperties": False,
                },
            ),
        ]
        for hint, schema in table:
            with self.subTest(hint=hint):
                self.assertEqual(shape_of(hint, "x").schema, schema)

    def test_values(self) -> None:
        table: list[tuple[Any, Any, Any]] = [
            (int, 2.0, 2),
            (float, 2, 2.0),
            (Optional[int], None, None),
            (list[float], [1], [1.0]),
            (dict[str, int], {"a": 1.0}, {"a": 1}),
            (Place, {"city": "Rome"}, Place("Rome", None)),
            (list[Place], [{"city": "Rome", "zip": "1", "size": 2}], [Place("Rome", "1", [], 2.0)]),
            (Optional[Place], None, None),
            (Person, {"name": "Ada"}, {"name": "Ada"}),
        ]
        for hint, given, expected in table:
            with self.subTest(hint=hint, given=given):
                value = shape_of(hint, "x").value(given)
                self.assertEqual(value, expected)
                self.assertIs(type(value), type(expected))

    def test_unsupported_hints_say_what_to_write(self) -> None:
        table: list[tuple[Any, str]] = [
            (list, "write `list[str]`"),
            (dict, "write `dict[str, str]`"),
            (dict[int, str], "the keys of a JSON object are strings"),
            (set[str], "JSON has no sets"),
            (tuple[int, int], "JSON has no tuples"),
            (bytes, "attachments: list[Blob]"),
            (date, "date.fromisoformat"),
            (Colour, "write `Literal['red']`"),
            (Loop, "Loop contains itself"),
            (Schema, "make it a @dataclass"),
            (Union[Place, str], "can be alternatives"),
            (Callable[[], int], "is not supported. Supported are str, int"),
            (Literal[b"a"], "is not JSON"),
        ]
        for hint, expected in table:
            with self.subTest(hint=hint), self.assertRaises(DeclarationError) as caught:
                shape_of(hint, "parameter 'x'")
            self.assertIn(expected, str(caught.exception))
            self.assertRegex(str(caught.exception), "^(parameter|field) '")


class Tools(unittest.TestCase):
    def test_docstrings_describe(self) -> None:
        def weather(city: str, days: int = 3, unit: Optional[str] = None) -> str:
            """Returns the weather of a city,
            as far as it is known.

            Use it for plans.

            Args:
                city (str): The city,
                    in English.
                days: How many days.

            Returns:
                A sentence.

            Raises:
                Failure: always.
            """
            return f"{city} {days} {unit}"

        tool = compiled(weather)
        self.assertEqual(
            tool.description,
            "Returns the weather of a city, as far as it is known.\n\nUse it for plans.\n\nReturns: A sentence.",
        )
        self.assertEqual(
            tool.schema["properties"],
            {
                "city": {"type": "string", "description": "The city, in English."},
                "days": {"type": "integer", "description": "How many days.", "default": 3},
                "unit": {"type": ["string", "null"]},
            },
        )
        self.assertEqual(tool.schema["required"], ["city"])
        self.assertEqual(tool.run('{"city":"Rome"}', []), "Rome 3 None")

    def test_attachments_are_not_in_the_schema(self) -> None:
        def count(files: list[Blob]) -> int:
            return len(files)

        tool = compiled(count)
        self.assertEqual(tool.schema["properties"], {})
        self.assertEqual(tool.run("{}", [Blob("text/plain", b"")]), 1)

    def test_an_optional_argument_without_a_default_is_none(self) -> None:
        def show(name: Optional[str]) -> str:
            return repr(name)

        self.assertEqual(compiled(show).run("{}", []), "None")

    def test_wrong_declarations_say_where_and_what(self) -> None:
        def no_hint(name) -> None: ...  # type: ignore[no-untyped-def]
        def stars(*names: str) -> None: ...
        def unnamed(name: str, /) -> None: ...
        def typo(name: str) -> None:
            """Does.

            Args:
                nmae: Name.
            """

        def undefined(name: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

        table: list[tuple[Callable[..., Any], str]] = [
            (no_hint, "parameter 'name' has no type hint: write `name: str`"),
            (stars, "a fixed list of arguments"),
            (unnamed, "remove the `/`"),
            (typo, "the docstring describes 'nmae', which is not a parameter"),
            (undefined, "a name that is not defined: name 'Nowhere'"),
        ]
        for function, expected in table:
            with self.subTest(function.__name__), self.assertRaises(DeclarationError) as caught:
                compiled(function)
            self.assertIn(expected, str(caught.exception))
            self.assertRegex(str(caught.exception), rf"test_schema\.py:\d+: tool '{function.__name__}'")

    def test_a_name_is_declared_once(self) -> None:
        def a() -> None: ...
        def b() -> None: ...

        with self.assertRaisesRegex(DeclarationError, "tool 'same' is declared twice, first at .*:"):
            compile_tools([Declaration(a, "same", {}), Declaration(b, "same", {})])

    def test_an_input_that_the_schema_refuses_is_a_failure(self) -> None:
        def one(name: str, place: Optional[Place] = None) -> None: ...

        for input in ('{"name":"a","other":1}', "[1]", "{", '{"place":{"town":"Rome"}}'):
            with self.subTest(input), self.assertRaises(Failure) as caught:
                compiled(one).run(input, [])
            self.assertEqual(caught.exception.kind, "invalid-input")


if __name__ == "__main__":
    unittest.main()

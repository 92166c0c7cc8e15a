"""From return values to content."""

import datetime
import unittest
from dataclasses import dataclass
from typing import Any

from patchbay_sdk import Blob, Failure, Json, Link, Text
from patchbay_sdk._result import contents


@dataclass
class Point:
    x: int
    y: "list[Point]"


class Result(unittest.TestCase):
    def test_values(self) -> None:
        table: list[tuple[Any, list[Any]]] = [
            ("text", [Text("text")]),
            ("", [Text("")]),
            (None, [Json("null")]),
            (True, [Json("true")]),
            (2**70, [Json(str(2**70))]),
            (1.5, [Json("1.5")]),
            ({"a": [1, "ü"]}, [Json('{"a":[1,"ü"]}')]),
            ([], [Json("[]")]),
            (["a", "b"], [Json('["a","b"]')]),
            (Point(1, [Point(2, [])]), [Json('{"x":1,"y":[{"x":2,"y":[]}]}')]),
            (Json("text"), [Json('"text"')]),
            (Blob("image/png", b"\x00"), [Blob("image/png", b"\x00")]),
            ([Text("a"), "b", Json({}), Link("a.txt", "text/plain")],
             [Text("a"), Text("b"), Json("{}"), Link("a.txt", "text/plain")]),
        ]
        for value, expected in table:
            with self.subTest(value=value):
                self.assertEqual(contents(value, "t"), expected)

    def test_wrong_values_name_the_tool_and_what_to_return(self) -> None:
        table: list[tuple[Any, str]] = [
            ({1}, "tool 't' returned a set, which has no JSON form: return a list, such as sorted(...)"),
            ({"a": {1}}, "tool 't' returned a dict with a set in it, which has no JSON form: return a list, such as sorted(...)"),
            (b"a", "tool 't' returned a bytes, which has no JSON form: return Blob(media_type, data), or decode it"),
            (datetime.date(2026, 1, 2), "tool 't' returned a date, which has no JSON form: return its isoformat()"),
            (object(), "tool 't' returned a object, which has no JSON form"),
            (float("nan"), "tool 't' returned a float, which has no JSON form: NaN and infinity are not JSON: use None"),
            ([Text("a"), 1], "tool 't' returned a list of content with a int in it: wrap it in Json(...)"),
            (Text(1), "tool 't' returned Text(text) with a int: it must be a str"),  # type: ignore[arg-type]
            (Blob("a/b", "c"), "tool 't' returned a Blob whose data is a str: it must be bytes"),  # type: ignore[arg-type]
            ("\ud800", "tool 't' returned a text with half of a surrogate pair ('\\ud800'), which is not valid Unicode"),
        ]
        for value, message in table:
            with self.subTest(value=repr(value)), self.assertRaises(Failure) as caught:
                contents(value, "t")
            self.assertEqual((caught.exception.kind, caught.exception.message), ("failed", message))

    def test_a_value_that_contains_itself_is_a_failure(self) -> None:
        value: list[Any] = []
        value.append(value)
        with self.assertRaisesRegex(Failure, "it contains itself"):
            contents(value, "t")


if __name__ == "__main__":
    unittest.main()

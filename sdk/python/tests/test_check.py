"""Mistakes that are found in a skill's source, without running it."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from patchbay_sdk.check import Report, check

_TOP = "from patchbay_sdk import Failure, tool\n"


def report(source: str, **files: str) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"skill": source, **files}.items():
            Path(folder, f"{name}.py").write_text(text)
        return check(folder)


class Check(unittest.TestCase):
    def assert_error(self, source: str, words: str, **files: str) -> None:
        found = report(source, **files)
        self.assertTrue(any(words in error for error in found.errors), found)

    def test_valid_skill_has_neither_errors_nor_notes(self) -> None:
        source = _TOP + "import helper\n@tool\ndef a(n: 'int', *, m: list[str] = []) -> str:\n    raise Failure('x', 'y')\n"
        self.assertEqual(report(source, helper="import json\n"), Report())
        self.assertEqual(report("import patchbay_sdk as sdk\n@sdk.tool(name='b')\ndef a() -> str:\n    return ''\n"), Report())
        # Tools may be declared in ways that the source does not show.
        self.assertEqual(report(_TOP + "def a() -> str:\n    return ''\ntool(a)\n"), Report())
        self.assertEqual(report("from patchbay_sdk import *\n@tool\ndef a(x: Blob) -> str:\n    return ''\n"), Report())

    def test_syntax_error_has_file_and_line(self) -> None:
        self.assert_error("import helper\n", "helper.py:2: ", helper="x = 1\ny = (\n")
        self.assert_error("x = '\0'\n", "skill.py")
        self.assertEqual(check("/nowhere").errors, ["there is no skill.py: the tools are declared there, with @tool"])

    def test_declarations_are_checked(self) -> None:
        for function, words in {
            "async def a() -> str:\n    return ''": "skill.py:3: tool 'a' is async",
            "def a() -> str:\n    yield ''": "skill.py:3: tool 'a' has a `yield`",
            "def getName() -> str:\n    return ''": 'write @tool(name="get_name")',
            "def a(x) -> str:\n    return ''": "parameter 'x' has no type hint",
            "def a(*x: str) -> str:\n    return ''": "parameter 'x': a tool has a fixed list of arguments",
            "def a(x: str, /) -> str:\n    return ''": "remove the `/`",
            "def a(x: bytes) -> str:\n    return ''": "`bytes` has no JSON form",
            "def a(x: Literal['b']) -> str:\n    return ''": "write `from typing import Literal`",
            "def a() -> str:\n    '''A.\n\n    Args:\n        y: No.\n    '''\n    return ''": "the docstring describes 'y'",
            "def a() -> str:\n    raise Failure('x')": "skill.py:4: a Failure has a kind and a message",
        }.items():
            self.assert_error(f"{_TOP}@tool\n{function}\n", words)
        self.assert_error(_TOP, "skill.py declares no tool")
        self.assert_error("@tool\ndef a() -> str:\n    return ''\n", "skill.py:1: 'tool' is not defined")
        tool = "@tool\ndef a() -> str:\n    return ''\n"
        self.assert_error(_TOP + tool + tool, "skill.py:6: tool 'a' is declared twice, first at skill.py:3")
        inner = "@tool\ndef a() -> list[int]:\n    def b():\n        yield 1\n    return list(b())\n"
        self.assertEqual(report(_TOP + inner), Report())

    def test_imports_are_checked(self) -> None:
        self.assert_error(_TOP + "import requests\n", "skill.py:2: 'requests' is neither in this project")
        tool = "@tool\ndef a() -> str:\n    import decimal\n    return ''\n"
        self.assertEqual(len(report(_TOP + tool).notes), 1)
        self.assertEqual(report(_TOP + "import helper\n" + tool, helper="import decimal\n"), Report())
        optional = "try:\n    import ujson as json\nexcept ImportError:\n    import json\n"
        self.assertEqual(report(_TOP + optional + "@tool\ndef a() -> str:\n    return ''\n"), Report())


if __name__ == "__main__":
    unittest.main()

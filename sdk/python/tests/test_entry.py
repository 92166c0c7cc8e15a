"""A skill as the host sees it: errors of the build, results, failures, tracebacks, what the sandbox lacks."""

import json
import unittest

from sandboxed import run

HELLO = '''
from patchbay_sdk import Failure, tool

@tool(title="Hello", kind="other", read_only=True)
def hello(name: str) -> str:
    """Greets a person by name.

    Args:
        name: Name of the person to greet.
    """
    if not name.strip():
        raise Failure("invalid-input", "the name is empty")
    return f"Hello, {name}!"
'''


def body(code: str, top: str = "") -> str:
    """Returns a skill whose tool `go` runs `code`, which begins in line 5, or later if `top` has lines."""
    lines = "\n".join("    " + line for line in code.splitlines())
    return f"from typing import Any\nfrom patchbay_sdk import *\n{top}@tool\ndef go() -> Any:\n{lines}\n"


class Entry(unittest.TestCase):
    def test_lists_tools(self) -> None:
        (tool,) = run(HELLO).tools
        self.assertEqual(tool["name"], "hello")
        self.assertEqual(tool["description"], "Greets a person by name.")
        self.assertEqual(tool["extra"], {"title": "Hello", "kind": "other", "read-only": "true"})
        self.assertEqual(
            json.loads(tool["input_schema"]),
            {
                "type": "object",
                "properties": {"name": {"type": "string", "description": "Name of the person to greet."}},
                "required": ["name"],
                "additionalProperties": False,
            },
        )

    def test_calls_a_tool(self) -> None:
        self.assertEqual(run(HELLO, "hello", '{"name":"Zoë"}').result, [["Content_Text", "Hello, Zoë!"]])
        self.assertEqual(run(HELLO, "hello", '{"name":" "}').failure, ["invalid-input", "the name is empty"])
        self.assertEqual(run(HELLO, "helo").failure, ["unknown-tool", "this skill has no tool 'helo'"])

    def test_build_errors_are_one_line_about_the_source(self) -> None:
        table = {
            "": "error: skill.py declares no tool: put @tool above a function\n",
            "from patchbay_sdk import tool\n@tool\nasync def go(): ...": (
                "error: skill.py:2: tool 'go' is async, and skills are synchronous: write `def`, not `async def`\n"
            ),
            "from patchbay_sdk import tool\n@tool\ndef go(x): ...": (
                "error: skill.py:2: tool 'go', parameter 'x' has no type hint: write `x: str`, or whatever it is\n"
            ),
        }
        for source, error in table.items():
            with self.subTest(source):
                self.assertEqual(run(source).error, error)

    def test_an_exception_at_import_shows_only_the_authors_frames(self) -> None:
        self.assertEqual(
            run("import json\n\njson.loads('{')").error,
            "error: skill.py:3: skill.py cannot be imported\n"
            "Traceback (most recent call last):\n"
            '  File "skill.py", line 3, in <module>\n'
            "    json.loads('{')\n"
            "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n",
        )

    def test_source_that_is_not_python_is_named_with_its_line(self) -> None:
        self.assertIn("skill.py:2: ", run("a = 1\ndef (").error)

    def test_a_missing_module_is_named(self) -> None:
        self.assertIn("note: 'nowhere' is neither in this project", run("import nowhere").error)

    def test_an_unexpected_exception_fails_with_its_place(self) -> None:
        done = run(body("helper()", "def helper() -> None:\n    1 / 0\n"), "go")
        self.assertEqual(done.failure, ["failed", "ZeroDivisionError: division by zero (skill.py:4, in helper)"])
        self.assertEqual(
            [line for _, line in done.log],
            [
                "Traceback (most recent call last):",
                '  File "skill.py", line 7, in go',
                "    helper()",
                '  File "skill.py", line 4, in helper',
                "    1 / 0",
                "ZeroDivisionError: division by zero",
            ],
        )

    def test_causes_are_in_the_traceback(self) -> None:
        done = run(body("try:\n    {}['a']\nexcept KeyError as error:\n    raise ValueError('no a') from error"), "go")
        text = "\n".join(line for _, line in done.log)
        self.assertIn("KeyError: 'a'\nThe above exception was the direct cause", text)
        self.assertTrue(text.endswith("ValueError: no a"))

    def test_a_deep_recursion_is_shown_in_part(self) -> None:
        done = run(body("deep(0)", "def deep(n: int) -> int:\n    return deep(n + 1)\n"), "go")
        self.assertIn("more frames", "\n".join(line for _, line in done.log))
        self.assertLess(len(done.log), 40)

    def test_print_and_logging_write_to_the_log(self) -> None:
        done = run(body("print('a', 1)\nlogging.warning('careful')\nprint('end', end='')", "import logging\n"), "go")
        self.assertEqual(done.log, [["info", "a 1"], ["warn", "WARNING:root:careful"], ["info", "end"]])

    def test_errors_of_the_host_become_failures(self) -> None:
        done = run(body("return kv.get('')", "from patchbay_sdk import kv\n"), "go")
        self.assertEqual(done.failure, ["invalid", "a key cannot be empty"])

    def test_the_store(self) -> None:
        code = "for key in 'abc':\n    kv.put(key, key)\nreturn [kv.get_text('a'), kv.get('x'), list(kv.keys())]"
        done = run(body(code, "from patchbay_sdk import kv\n"), "go")
        self.assertEqual(done.result, [["Content_Json", '["a",null,["a","b","c"]]']])

    def test_the_host_cannot_be_used_at_the_top_of_a_module(self) -> None:
        done = run("from patchbay_sdk import kv\nkv.get('a')")
        self.assertIn("SandboxError: patchbay_sdk.kv was used while the skill is being built", done.error)

    def test_an_interface_that_the_world_leaves_out_names_the_line_to_add(self) -> None:
        done = run(body("return call.info()", "from patchbay_sdk import call\n"), "go")
        self.assertIn("`import patchbay:host/call@0.1.2;` in wit/world.wit", (done.failure or [""])[-1])

    def test_what_the_sandbox_lacks_says_what_to_use(self) -> None:
        table = {
            "open('a')": "use patchbay_sdk.workspace",
            "Path('a').read_text()": "use patchbay_sdk.workspace",
            "os.listdir('.')": "os.listdir() does not work in a tool",
            "time.time()": "has no clock",
            "time.localtime()": "has no clock",
            "datetime.now()": "has no clock",
            "time.sleep(1)": "has no clock",
            "random.random()": "random.Random(seed)",
            "random.choice([1])": "random.Random(seed)",
            "random.Random()": "random.Random(seed)",
            "secrets.token_hex()": "has no randomness",
            "uuid.uuid4()": "has no randomness",
            "os.urandom(1)": "has no randomness",
            "input()": "no standard input",
            "socket.create_connection(('a', 1))": "use patchbay_sdk.http",
            "asyncio.run(None)": "use patchbay_sdk.tool_calls",
            "import wave": "write `import wave` at the top of skill.py",
        }
        top = "import asyncio, os, random, secrets, socket, time, uuid\nfrom datetime import datetime\nfrom pathlib import Path\n"
        for code, expected in table.items():
            with self.subTest(code):
                done = run(body(code, top), "go")
                self.assertIn(expected, (done.failure or ["", f"{done}"])[1])
                self.assertIn("(skill.py:8, in go)", (done.failure or ["", ""])[1])

    def test_what_works_in_the_sandbox(self) -> None:
        table = {
            "return random.Random(1).random() == random.Random(1).random()": "true",
            "random.seed(1)\nreturn random.randint(1, 1)": "1",
            "return datetime(2026, 1, 2).isoformat()": '"2026-01-02T00:00:00"',
            "return datetime.strptime('2026', '%Y').year": "2026",
            "return time.gmtime(0).tm_year": "1970",
            "return 'é'.encode('latin-1').decode('cp1252')": '"é"',
            "return KEPT": '"kept"',
        }
        top = "import random, time\nfrom datetime import datetime\nfrom pathlib import Path\nKEPT = open('data.txt').read()\n"
        for code, expected in table.items():
            with self.subTest(code):
                source = body(code.replace("return ", "return Json(") + ")", top)
                done = run(source, "go", files={"data.txt": "kept"})
                self.assertEqual(done.result, [["Content_Json", expected]], done)


if __name__ == "__main__":
    unittest.main()

"""The guest in Python: the tools that need nothing of WASI."""

import json
from dataclasses import dataclass
from typing import Any, Callable

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import kv
from wit_world.imports.patchbay_skill_types import Blob, Content, Content_Json, Content_Text, Failure, Tool


def as_json(value: Any) -> Content:
    return Content_Json(json.dumps(value, separators=(",", ":")))


def echo(text: str) -> Content:
    return Content_Text(text)


def stats(text: str) -> Content:
    data = text.encode()
    unended = data != b"" and not data.endswith(b"\n")
    return as_json({"bytes": len(data), "lines": data.count(b"\n") + unended, "words": len(data.split())})


def fail(message: str) -> Content:
    raise Err(Failure("failed", message))


def store(key: str, value: str) -> Content:
    try:
        kv.put(kv.Scope.USER, key, value.encode(), None)
        entry = kv.get(kv.Scope.USER, key)
    except Err as error:
        raise Err(Failure(error.value.kind, error.value.message))
    return Content_Text(entry.value.decode()) if entry else fail("what was put is not there")


@dataclass
class Entry:
    """A tool: what it is for, its properties with what each means, and what it does."""

    description: str
    properties: dict[str, str]
    run: Callable[..., Content]

    def schema(self) -> str:
        properties = {name: {"type": "string", "description": what} for name, what in self.properties.items()}
        required = list(self.properties)
        return json.dumps(
            {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        )


TOOLS = {
    "echo": Entry("Gives back the text.", {"text": "What comes back."}, echo),
    "stats": Entry("Counts bytes, lines and words.", {"text": "What is counted."}, stats),
    "fail": Entry("Fails.", {"message": "Why."}, fail),
    "store": Entry(
        "Puts a value into the store of the user, and reads it back.", {"key": "Where.", "value": "What."}, store
    ),
}


class Skill(exports.Skill):
    entries = TOOLS

    def tools(self) -> list[Tool]:
        return [Tool(name, entry.description, entry.schema(), []) for name, entry in self.entries.items()]

    def call(self, tool: str, input: str, attachments: list[Blob]) -> list[Content]:
        if tool not in self.entries:
            raise Err(Failure("unknown-tool", f"this skill has no tool '{tool}'"))
        return [self.entries[tool].run(**json.loads(input))]

"""The guest in Python, with WASI: what a program finds of the world, and a host call."""

import encodings.idna  # The resolver looks for it by its name, at run time.
import json
import os
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import kv
from wit_world.imports.patchbay_skill_types import Blob, Content, Content_Json, Content_Text, Failure, Tool


def as_json(value: Any) -> Content:
    return Content_Json(json.dumps(value, separators=(",", ":")))


def store(key: str, value: str) -> Content:
    try:
        kv.put(kv.Scope.USER, key, value.encode(), None)
        entry = kv.get(kv.Scope.USER, key)
    except Err as error:
        raise Err(Failure(error.value.kind, error.value.message))
    if not entry:
        raise Err(Failure("failed", "the stored value is missing"))
    return Content_Text(entry.value.decode())


def attempt(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def write(path: str) -> int:
    with open(path, "w") as file:
        return file.write("text")


def connect() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream:
        stream.connect(("127.0.0.1", 80))
        return "connected"


def listen() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        return "bound"


def surroundings() -> Content:
    return as_json(
        {
            "environment": attempt(lambda: list(os.environ)),
            "arguments": attempt(lambda: sys.argv),
            "directory": attempt(os.getcwd),
            "list": attempt(lambda: os.listdir(".")),
            "open": attempt(lambda: read("/etc/passwd")),
            "create": attempt(lambda: write("made-by-a-guest")),
            "wall_ns": attempt(lambda: [time.time_ns(), time.time_ns()]),
            "monotonic_ns": attempt(lambda: [time.monotonic_ns(), time.monotonic_ns()]),
            "random": attempt(lambda: [os.urandom(16).hex(), os.urandom(16).hex()]),
            "connect": attempt(connect),
            "listen": attempt(listen),
            "resolve": attempt(lambda: len(socket.getaddrinfo("localhost", 80))),
            "stdin": attempt(lambda: sys.stdin.read()),
            "stdout": attempt(lambda: print("a line to stdout", flush=True)),
            "stderr": attempt(lambda: print("a line to stderr", file=sys.stderr, flush=True)),
        }
    )


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
    "store": Entry(
        "Puts a value into the store of the user, and reads it back.", {"key": "Where.", "value": "What."}, store
    ),
    "surroundings": Entry(
        "Tells what is seen of the world. Each is a value, or an object with the text of an `error`.", {}, surroundings
    ),
}


class Skill(exports.Skill):
    def tools(self) -> list[Tool]:
        return [Tool(name, entry.description, entry.schema(), []) for name, entry in TOOLS.items()]

    def call(self, tool: str, input: str, attachments: list[Blob]) -> list[Content]:
        if tool not in TOOLS:
            raise Err(Failure("unknown-tool", f"this skill has no tool '{tool}'"))
        return [TOOLS[tool].run(**json.loads(input))]

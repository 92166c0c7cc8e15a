"""The guest that imports WASI: one tool more, which would trap where WASI is stubbed."""

import encodings.idna  # The resolver looks for it by its name, at run time.
import os
import socket
import sys
import time
from typing import Any, Callable

import guest
from wit_world.imports.patchbay_skill_types import Content


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
    return guest.as_json(
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


class Skill(guest.Skill):
    entries = guest.TOOLS | {
        "surroundings": guest.Entry(
            "Tells what is seen of the world. Each is a value, or an object with the text of an `error`.",
            {},
            surroundings,
        )
    }

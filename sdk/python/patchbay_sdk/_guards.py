"""Replaces functions that trap in the sandbox with working versions, or with errors that name an alternative.

The component has no clock, no randomness, no files and no standard streams, and the standard library is not there at run
time. The C functions behind all these end the component without a message. While the skill is being built everything works
as usual: a module may read a file beside it at its top, and keep what it read.
"""

import builtins
import importlib.abc
import importlib.machinery
import io
import linecache
import os
import random
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Optional

from . import _host, _source, log
from ._errors import SandboxError

_FILES = (
    "A skill has no files of its own machine, so {name} does not work in a tool: use patchbay_sdk.workspace for files of the "
    "user, patchbay_sdk.skill_files for files beside SKILL.md, or read the file at the top of the module, while it is built"
)
_CLOCK = (
    "A skill has no clock, so {name} does not work in a tool: let the caller pass the time as an argument, or use "
    "call.remaining('time-ms') in a tool with grants to see how much time is left"
)
_RANDOM = (
    "A skill has no randomness, so {name} does not work in a tool: use random.Random(seed) or random.seed(seed) with a seed "
    "from the input, or call.info().id in a tool with grants for a unique id"
)
_NETWORK = "A skill has no sockets, so {name} does not work in a tool: use patchbay_sdk.http"
_ASYNC = "A skill is synchronous, so {name} does not work in a tool: to call tools side by side, use patchbay_sdk.tool_calls"

_CLOCKS = (
    "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns thread_time "
    "thread_time_ns clock_gettime clock_gettime_ns sleep"
).split()
_CLOCKS_WITHOUT = {"localtime": 0, "gmtime": 0, "ctime": 0, "asctime": 0, "strftime": 1}
_OS_FILES = (
    "open stat lstat listdir scandir mkdir makedirs remove unlink rmdir rename replace chdir utime truncate link symlink "
    "readlink access"
).split()
# Modules that are patched only if the skill imports them.
_LATER = {
    "socket": (_NETWORK, "socket create_connection create_server getaddrinfo gethostbyname socketpair".split()),
    "asyncio": (_ASYNC, "run new_event_loop Runner".split()),
}
# Modules that the standard library imports only when they are used.
_LAZY = (
    "_strptime encodings.ascii encodings.latin_1 encodings.cp1252 encodings.utf_8_sig encodings.utf_16 encodings.utf_16_le "
    "encodings.utf_16_be encodings.idna"
).split()


class _Stream(io.TextIOBase):
    """Standard output or error: each line is written to the skill's log, or to the compiler while the skill is built."""

    def __init__(self, original: Any, level: log.Level) -> None:
        self._original = original
        self._level = level
        self._line = ""

    encoding = "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not _host.is_running():
            return int(self._original.write(text))
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            log.write(self._level, line)
        return len(text)

    def flush(self) -> None:
        if not _host.is_running():
            self._original.flush()

    def end_line(self) -> None:
        """Writes the text that has no newline yet."""
        if self._line:
            log.write(self._level, self._line)
            self._line = ""


class _Stdin(io.TextIOBase):
    def readable(self) -> bool:
        return True

    def read(self, size: Optional[int] = -1, /) -> str:
        raise SandboxError("A skill has no standard input: a tool's arguments are its only input")

    readline = read  # type: ignore[assignment]


class _NoImports(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        raise ModuleNotFoundError(
            f"'{name}' is not in the component: write `import {name}` at the top of skill.py. Python's files are only there "
            "while the skill is built, so an import in a function works only if a module imported the same name at its top",
            name=name,
        )


_streams: list[_Stream] = []


def install() -> None:
    """Prepares Python, before the skill is imported."""
    # The Python version of `datetime` calls `time`, and thereby the guard; the C version would trap.
    sys.modules.setdefault("_datetime", None)  # type: ignore[arg-type]
    for name in _LAZY:
        __import__(name)
    _streams.extend([_Stream(sys.stdout, "info"), _Stream(sys.stderr, "warn")])
    sys.stdout, sys.stderr = _streams
    sys.stdin = _Stdin()
    _guard_clocks()
    _guard_randomness()
    _guard(os, "os", _OS_FILES, _FILES)
    builtins.open = io.open = _refusing("open()", _FILES, io.open)


def seal() -> None:
    """Installs the guards that depend on the modules that the skill imported."""
    for name, (why, functions) in _LATER.items():
        if name in sys.modules:
            _guard(sys.modules[name], name, functions, why)
    if "logging" in sys.modules:
        # Its records need a time. It can be constant, because they are written to the skill's log, which has its own times.
        sys.modules["logging"].time = SimpleNamespace(  # type: ignore[attr-defined]
            time=lambda: 0.0, time_ns=lambda: 0, localtime=time.localtime, gmtime=time.gmtime, strftime=time.strftime
        )
    _keep_sources()


def start() -> None:
    """Turns the guards on, when the component runs. Until then, the runtime itself imports modules."""
    _host.start()
    sys.meta_path = [importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter, _NoImports()]


def end_lines() -> None:
    """Writes printed text that has no newline yet."""
    for stream in _streams:
        stream.end_line()


def _refusing(name: str, why: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(*arguments: Any, **named: Any) -> Any:
        if _host.is_running():
            raise SandboxError(why.format(name=name))
        return original(*arguments, **named)

    return refuse


def _guard(module: Any, prefix: str, names: list[str], why: str) -> None:
    for name in names:
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, _refusing(f"{prefix}.{name}()", why, original))


def _guard_clocks() -> None:
    why = _CLOCK + " (datetime.now() and date.today() need it, too)"
    _guard(time, "time", _CLOCKS, why)

    def needs_time(name: str, before: int, original: Callable[..., Any]) -> Callable[..., Any]:
        refuse = _refusing(f"time.{name}() without a time", why, original)
        return lambda *arguments: original(*arguments) if len(arguments) > before else refuse(*arguments)

    for name, before in _CLOCKS_WITHOUT.items():
        setattr(time, name, needs_time(name, before, getattr(time, name)))


def _guard_randomness() -> None:
    seed = random.Random.seed
    # `random.random()` and similar functions share one generator, whose state at build time would repeat in every call.
    shared = random._inst
    seeded = False

    def checked_seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        nonlocal seeded
        if a is None and _host.is_running():
            raise SandboxError(_RANDOM.format(name="random.Random() without a seed"))
        seeded = seeded or (self is shared and a is not None)
        seed(self, a, version)

    def needs_seed(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        refuse = _refusing(f"random.{name}() without a seed", _RANDOM, original)
        return lambda *arguments, **named: (original if seeded else refuse)(*arguments, **named)

    # Without this, each build of the same source would produce a different component.
    seed(shared, 0)
    for name in random.__all__:
        value = getattr(random, name)
        if getattr(value, "__self__", None) is shared and name not in ("seed", "getstate", "setstate"):
            setattr(random, name, needs_seed(name, value))
    random.Random.seed = checked_seed  # type: ignore[method-assign]
    random.seed = shared.seed
    _guard(os, "os", ["urandom", "getrandom"], _RANDOM)
    random._urandom = os.urandom  # type: ignore[attr-defined]


def _keep_sources() -> None:
    """Keeps the author's source for tracebacks, because its files do not exist at run time."""
    for module in list(sys.modules.values()):
        filename = getattr(module, "__file__", None)
        if filename and filename.endswith(".py") and _source.is_authors(filename):
            linecache.getlines(filename)
    linecache.checkcache = lambda filename=None: None
    linecache.updatecache = lambda filename, module_globals=None: []

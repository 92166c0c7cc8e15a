"""Access to the host: the bindings that componentize-py generates, if they exist."""

import importlib
from types import ModuleType
from typing import Any, Optional

from ._errors import HostError, SandboxError


def _load(name: str) -> Optional[ModuleType]:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


IN_SANDBOX = _load("wit_world") is not None
"""Whether the code is compiled into a component, or part of one. False in plain CPython."""

_err = getattr(_load("componentize_py_types"), "Err", ())
_is_running = False


def start() -> None:
    """Records that the component runs. Before that, it is being built, and the host cannot be called."""
    global _is_running
    _is_running = True


def is_running() -> bool:
    """Returns whether the component runs."""
    return _is_running


class Interface:
    """The functions and types of one interface of the host."""

    def __init__(self, wit: str, module: str) -> None:
        self._wit = wit
        self._module = module
        self._bindings = _load("wit_world.imports." + wit.replace("-", "_")) if IN_SANDBOX else None

    def call(self, function: str, *arguments: Any) -> Any:
        """Calls a function. An error of the host becomes a `HostError`."""
        called = getattr(self._reachable(), function)
        try:
            return called(*arguments)
        except _err as error:
            raise HostError(error.value.kind, error.value.message) from None

    def type(self, name: str) -> Any:
        """Returns a type of the interface: an enum, or a case of a variant."""
        return getattr(self._reachable(), name)

    def record(self, name: str, /, **fields: Any) -> Any:
        """Returns a record of the interface."""
        return self.type(name)(**fields)

    def _reachable(self) -> ModuleType:
        asked = f"patchbay_sdk.{self._module}"
        if self._bindings is not None and _is_running:
            return self._bindings
        if self._bindings is not None:
            raise SandboxError(f"{asked} was used while the skill is being built: use it in a tool, not at a module's top")
        if IN_SANDBOX:
            raise SandboxError(f"{asked} needs the line `import patchbay:host/{self._wit}@0.1.2;` in wit/world.wit")
        raise SandboxError(
            f"{asked} works only in Patchbay. In a unit test, replace the function that the tool calls: "
            f'unittest.mock.patch("{asked}.NAME", ...)'
        )


def text(value: Any, what: str) -> str:
    """Checks an argument that must be text: the bindings trap on any other type."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} has half of a surrogate pair, which is not valid Unicode: {value!r}") from None
    return value


def data(value: Any, what: str) -> bytes:
    """Checks an argument that must be bytes. Text becomes UTF-8."""
    if isinstance(value, str):
        return text(value, what).encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what} must be bytes or str, not {type(value).__name__}: for other values, use json.dumps(...)")


def number(value: Any, what: str, bits: int = 32) -> int:
    """Checks an argument that must be an unsigned integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{what} must be from 0 to {(1 << bits) - 1}, not {value}")
    return value


def optional_number(value: Any, what: str, bits: int = 32) -> Optional[int]:
    """Checks an argument that may be None."""
    return None if value is None else number(value, what, bits)


_types = Interface("patchbay-host-types", "http")


def pair(name: str, value: str) -> Any:
    """Returns a name and a value for the host."""
    return _types.record("Pair", name=name, value=value)


def extra(pairs: Any) -> dict[str, str]:
    """Returns the host's pairs as a dictionary."""
    return {pair.name: pair.value for pair in pairs}


def read_all(interface: Interface, path: str, offset: int, size: Optional[int], chunk: int) -> bytes:
    """Reads a range of a file in chunks. Only an empty chunk means the end, because a host may limit each read."""
    out = bytearray()
    text(path, "path")
    number(offset, "offset", 64)
    optional_number(size, "size", 64)
    while size is None or len(out) < size:
        wanted = chunk if size is None else min(chunk, size - len(out))
        part = interface.call("read", path, offset + len(out), wanted)
        if not part:
            break
        out += part
    return bytes(out)

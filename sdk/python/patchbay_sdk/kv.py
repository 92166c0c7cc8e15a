"""A small persistent store for the skill. Needs the capability `kv`.

A scope determines which sessions share the state: only this `session`, all sessions of this `workspace`, or all of this `user`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Optional, Union

from . import _host

Scope = Literal["session", "workspace", "user"]

_KV = _host.Interface("kv", "kv")
_PAGE = 1000


@dataclass(frozen=True)
class Entry:
    """A value and its version. A version is never used twice in a scope."""

    value: bytes
    version: int


def get(key: str, *, scope: Scope = "user") -> Optional[bytes]:
    """Returns the value of a key, or None if it does not exist."""
    entry = get_entry(key, scope=scope)
    return entry.value if entry else None


def get_text(key: str, *, scope: Scope = "user") -> Optional[str]:
    """Returns the value of a key as text, or None if it does not exist."""
    value = get(key, scope=scope)
    return None if value is None else value.decode()


def get_entry(key: str, *, scope: Scope = "user") -> Optional[Entry]:
    """Returns value and version of a key, or None if it does not exist."""
    entry = _KV.call("get", _scope(scope), _host.text(key, "key"))
    return Entry(entry.value, entry.version) if entry else None


def put(key: str, value: Union[bytes, str], *, scope: Scope = "user", expect: Optional[int] = None) -> int:
    """Stores a value and returns its version. A stored value survives a crash of the host.

    Args:
        expect: The version that the key must have (0: it must not exist), otherwise the error has the kind `conflict`. Without it,
            any value is replaced.
    """
    version: int = _KV.call(
        "put",
        _scope(scope),
        _host.text(key, "key"),
        _host.data(value, "value"),
        _host.optional_number(expect, "expect", 64),
    )
    return version


def delete(key: str, *, scope: Scope = "user") -> bool:
    """Deletes a key. Returns whether it existed."""
    existed: bool = _KV.call("delete", _scope(scope), _host.text(key, "key"))
    return existed


def keys(prefix: str = "", *, scope: Scope = "user", after: Optional[str] = None) -> Iterator[str]:
    """Yields the keys that begin with `prefix` and follow `after`, sorted by their bytes."""
    where = _scope(scope)
    while True:
        page: list[str] = _KV.call("keys", where, _host.text(prefix, "prefix"), after, _PAGE)
        yield from page
        if not page:
            return
        after = page[-1]


def _scope(scope: Scope) -> Any:
    if scope not in ("session", "workspace", "user"):
        raise ValueError(f"scope must be 'session', 'workspace' or 'user', not {scope!r}")
    return _KV.type("Scope")[scope.upper()]

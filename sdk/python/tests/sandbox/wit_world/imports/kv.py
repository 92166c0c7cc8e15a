from dataclasses import dataclass
from enum import Enum
from typing import Optional

from componentize_py_types import Err
from wit_world.imports.patchbay_host_types import Error

VALUES: dict[tuple[str, str], bytes] = {}


class Scope(Enum):
    SESSION = 0
    WORKSPACE = 1
    USER = 2


@dataclass
class Entry:
    value: bytes
    version: int


def _check(key: str) -> None:
    if not key:
        raise Err(Error("invalid", "a key cannot be empty"))


def get(scope: Scope, key: str) -> Optional[Entry]:
    _check(key)
    value = VALUES.get((scope.name, key))
    return None if value is None else Entry(value, 1)


def put(scope: Scope, key: str, value: bytes, expect: Optional[int]) -> int:
    _check(key)
    VALUES[scope.name, key] = value
    return 1


def keys(scope: Scope, prefix: str, after: Optional[str], limit: int) -> list[str]:
    found = sorted(key for name, key in VALUES if name == scope.name and key.startswith(prefix) and key > (after or ""))
    return found[: min(limit, 2)]

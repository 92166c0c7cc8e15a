"""Replaces the module of the same name in a component."""

from dataclasses import dataclass
from typing import Any


@dataclass
class Ok:
    value: Any


@dataclass(frozen=True)
class Err(Exception):
    value: Any

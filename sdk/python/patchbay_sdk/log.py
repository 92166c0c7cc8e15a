"""Lines for the operator. Models never see them. Always granted, and bounded.

`print` writes here, too, at the level `info`.
"""

from typing import Literal

from . import _host

Level = Literal["debug", "info", "warn", "error"]

_LOG = _host.Interface("log", "log")


def write(level: Level, message: str) -> None:
    """Writes one line."""
    _LOG.call("write", _LOG.type("Level")[level.upper()], _host.text(message, "message"))


def debug(message: str) -> None:
    """Writes a line for developers of the skill."""
    write("debug", message)


def info(message: str) -> None:
    """Writes a line about normal operation."""
    write("info", message)


def warn(message: str) -> None:
    """Writes a line about a possible problem."""
    write("warn", message)


def error(message: str) -> None:
    """Writes a line about a failure."""
    write("error", message)

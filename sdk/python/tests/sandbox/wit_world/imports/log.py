from enum import Enum

LINES: list[tuple[str, str]] = []


class Level(Enum):
    DEBUG = 0
    INFO = 1
    WARN = 2
    ERROR = 3


def write(level: Level, message: str) -> None:
    LINES.append((level.name.lower(), message))

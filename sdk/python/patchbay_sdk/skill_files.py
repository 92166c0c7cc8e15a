"""The files of the skill itself: templates and data beside its SKILL.md. Read only, always granted."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Mapping, Optional

from . import _host

_FILES = _host.Interface("skill-files", "skill_files")
_CHUNK = 1 << 20
_PAGE = 1000


@dataclass(frozen=True)
class Entry:
    """A file. `digest` is the SHA-256 of its contents in lower-case hex; `extra` may have `media-type`."""

    path: str
    size: int
    digest: str
    extra: Mapping[str, str]


def entries(prefix: str = "", *, after: Optional[str] = None) -> Iterator[Entry]:
    """Yields the files whose path begins with `prefix`, sorted by the bytes of the paths."""
    while True:
        page = _FILES.call("entries", _host.text(prefix, "prefix"), after, _PAGE)
        for entry in page:
            yield Entry(entry.path, entry.size, entry.digest, _host.extra(entry.extra))
        if not page:
            return
        after = page[-1].path


def read(path: str, *, offset: int = 0, size: Optional[int] = None) -> bytes:
    """Returns the bytes of a file from `offset`: at most `size`, or all."""
    return _host.read_all(_FILES, path, offset, size, _CHUNK)


def read_text(path: str) -> str:
    """Returns a file as UTF-8 text."""
    return read(path).decode()

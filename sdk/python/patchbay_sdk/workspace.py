"""Files below the workspace root, by relative paths with `/`.

Reading needs `workspace-read`, writing `workspace-write`, deleting `workspace-delete`. To search many files, use
`workspace_search`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Optional, Union

from . import _host

_READ = _host.Interface("workspace-read", "workspace")
_WRITE = _host.Interface("workspace-write", "workspace")
_CHUNK = 1 << 20
_PAGE = 1000


@dataclass(frozen=True)
class Entry:
    """A file or a folder, whose size is 0."""

    path: str
    is_directory: bool
    size: int


def read(path: str, *, offset: int = 0, size: Optional[int] = None) -> bytes:
    """Returns the bytes of a file from `offset`: at most `size`, or all."""
    return _host.read_all(_READ, path, offset, size, _CHUNK)


def read_text(path: str) -> str:
    """Returns a file as UTF-8 text."""
    return read(path).decode()


def walk(glob: str = "**", *, after: Optional[str] = None) -> Iterator[Entry]:
    """Yields the entries that match the glob and that .gitignore does not exclude, sorted by the bytes of the paths."""
    while True:
        page = _READ.call("walk", _host.text(glob, "glob"), after, _PAGE)
        for entry in page:
            yield Entry(entry.path, entry.is_directory, entry.size)
        if not page:
            return
        after = page[-1].path


def write(path: str, contents: Union[bytes, str]) -> None:
    """Replaces the whole file, atomically."""
    _WRITE.call("write", _host.text(path, "path"), _host.data(contents, "contents"))


def delete(path: str) -> None:
    """Deletes a file."""
    _WRITE.call("delete", _host.text(path, "path"))

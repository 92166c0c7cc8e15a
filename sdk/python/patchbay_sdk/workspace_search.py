"""Searches the whole workspace in one call, far faster than reading the files. Needs the capability `workspace-read`.

Results are sorted by the bytes of their paths. If a limit ends a search early, `stopped` names it and `next` is where to
continue: pass it as `after`. A glob that begins with `!` excludes files.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from . import _host

_SEARCH = _host.Interface("workspace-search", "workspace_search")


@dataclass(frozen=True)
class Position:
    """A position after line `line` of a file, or after the whole file."""

    path: str
    line: Optional[int] = None


@dataclass(frozen=True)
class Line:
    """A line, or the part of a long one around its first match.

    `number` counts from 1. `text` begins at byte `start` of the line, which has `size` bytes. `matched` has start
    and end of the first match, in bytes of `text`; None for a context line.
    """

    number: int
    text: str
    start: int
    size: int
    matched: Optional[tuple[int, int]]


@dataclass(frozen=True)
class File:
    """The matching lines of a file, and the lines around them."""

    path: str
    lines: list[Line]


@dataclass(frozen=True)
class Skipped:
    """Files not searched because they are `binary`, `too-large` or `unreadable`. `paths` has the first ten."""

    reason: str
    count: int
    paths: list[str]


@dataclass(frozen=True)
class TextResults:
    """The results of `search`. `stopped` is None if everything was searched."""

    files: list[File]
    searched: int
    bytes: int
    skipped: list[Skipped]
    stopped: Optional[str]
    next: Optional[Position]
    extra: Mapping[str, str]


@dataclass(frozen=True)
class Entry:
    """A file or a folder, whose size is 0."""

    path: str
    is_directory: bool
    size: int


@dataclass(frozen=True)
class NameResults:
    """The results of `find`. `stopped` is None if these are all."""

    entries: list[Entry]
    stopped: Optional[str]
    next: Optional[str]
    extra: Mapping[str, str]


def search(
    pattern: str,
    *globs: str,
    fixed: bool = False,
    ignore_case: bool = False,
    after: Optional[Position] = None,
    context: int = 0,
    max_lines: int = 1000,
    max_line_bytes: int = 500,
    time_ms: Optional[int] = None,
) -> TextResults:
    """Returns the lines that match.

    Args:
        pattern: A regular expression in the syntax of the Rust crate `regex`: no look-around and no back-references.
        globs: Which files are searched; all without one.
        fixed: Whether the pattern is plain text.
        context: How many lines before and after each match are returned, at most 20.
        max_lines: From 1 to 10,000.
        max_line_bytes: How many bytes of each line are returned, from 1 to 4,096.
        time_ms: How long the search may run, at most 60,000.
    """
    position = after and _SEARCH.record("Position", path=after.path, line=after.line)
    query = _SEARCH.record(
        "TextQuery",
        pattern=_host.text(pattern, "pattern"),
        fixed=bool(fixed),
        ignore_case=bool(ignore_case),
        globs=_globs(globs),
        after=position,
        context=_host.number(context, "context"),
        max_lines=_host.number(max_lines, "max_lines"),
        max_line_bytes=_host.number(max_line_bytes, "max_line_bytes"),
        time_ms=_host.optional_number(time_ms, "time_ms"),
        extra=[],
    )
    found = _SEARCH.call("search", query)
    return TextResults(
        [File(file.path, [_line(line) for line in file.lines]) for file in found.files],
        found.searched,
        found.bytes,
        [Skipped(skipped.reason, skipped.count, skipped.paths) for skipped in found.skipped],
        found.stopped,
        Position(found.next.path, found.next.line) if found.next else None,
        _host.extra(found.extra),
    )


def find(
    *globs: str,
    ignore_case: bool = False,
    directories: bool = False,
    after: Optional[str] = None,
    max_entries: int = 1000,
    time_ms: Optional[int] = None,
) -> NameResults:
    """Returns the files whose paths match, and the folders if `directories` is true."""
    query = _SEARCH.record(
        "NameQuery",
        globs=_globs(globs),
        ignore_case=bool(ignore_case),
        directories=bool(directories),
        after=after,
        max_entries=_host.number(max_entries, "max_entries"),
        time_ms=_host.optional_number(time_ms, "time_ms"),
        extra=[],
    )
    found = _SEARCH.call("find", query)
    entries = [Entry(entry.path, entry.is_directory, entry.size) for entry in found.entries]
    return NameResults(entries, found.stopped, found.next, _host.extra(found.extra))


def _globs(globs: Iterable[str]) -> list[str]:
    return [_host.text(glob, "a glob") for glob in globs]


def _line(line: Any) -> Line:
    matched = (line.matched.start, line.matched.end) if line.matched else None
    return Line(line.number, line.text, line.start, line.size, matched)

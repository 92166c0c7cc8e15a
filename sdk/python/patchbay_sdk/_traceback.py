"""Tracebacks that show only the author's code."""

import linecache
from collections.abc import Iterator
from types import TracebackType
from typing import Optional

from ._source import is_authors, short

# How many frames are shown at each end of a deep recursion.
_FRAMES = 8


def lines(error: BaseException) -> list[str]:
    """Returns the traceback of an error and of its causes; nothing if no frame is the author's."""
    out: list[str] = []
    for part, link in _chain(error):
        frames = list(_frames(part.__traceback__))
        if frames:
            out += [*([link] if link else []), "Traceback (most recent call last):", *_shown(frames), summary(part)]
    return out


def summary(error: BaseException) -> str:
    """Returns the last line of a traceback: type and message."""
    message = str(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def location(error: BaseException) -> Optional[str]:
    """Returns file, line and function of the author's innermost frame."""
    frames = list(_frames(error.__traceback__))
    if not frames:
        return None
    filename, line, function = frames[-1]
    return f"{short(filename)}:{line}, in {function}"


def _chain(error: BaseException) -> Iterator[tuple[BaseException, Optional[str]]]:
    """Yields the errors, the first cause first, each with the sentence that links it to the previous error."""
    chain: list[tuple[BaseException, Optional[str]]] = []
    seen: set[int] = set()
    current: Optional[BaseException] = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if current.__cause__ is not None:
            before, link = current.__cause__, "The above exception was the direct cause of the following exception:"
        elif current.__context__ is not None and not current.__suppress_context__:
            before, link = current.__context__, "During handling of the above exception, another exception occurred:"
        else:
            before, link = None, None
        chain.append((current, link))
        current = before
    yield from reversed(chain)


def _frames(traceback: Optional[TracebackType]) -> Iterator[tuple[str, int, str]]:
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_authors(code.co_filename):
            yield code.co_filename, traceback.tb_lineno or 0, code.co_name
        traceback = traceback.tb_next


def _shown(frames: list[tuple[str, int, str]]) -> Iterator[str]:
    hidden = len(frames) - 2 * _FRAMES
    for index, (filename, line, function) in enumerate(frames):
        if hidden > 0 and _FRAMES <= index < _FRAMES + hidden:
            if index == _FRAMES:
                yield f"  ... {hidden} more frames ..."
            continue
        yield f'  File "{short(filename)}", line {line}, in {function}'
        source = linecache.getline(filename, line).strip()
        if source:
            yield f"    {source}"

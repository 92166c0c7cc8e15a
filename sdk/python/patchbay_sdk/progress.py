"""Partial output of a running tool, streamed to the caller. Always granted, and bounded."""

from . import _host

_PROGRESS = _host.Interface("progress", "progress")


def report(text: str) -> None:
    """Sends partial output."""
    _PROGRESS.call("report", _host.text(text, "text"))

"""Asks the user once for several file changes. Needs `workspace-write`, `workspace-delete` or both."""

from collections.abc import Mapping
from typing import Optional, Union

from . import _host

_CHANGES = _host.Interface("workspace-changes", "workspace_changes")


def declare(changes: Mapping[str, Union[bytes, str, None]]) -> None:
    """Asks for all changes, without making any.

    Make them with `workspace.write` and `workspace.delete` afterwards, which then need no further question.

    Args:
        changes: The complete new contents by path; None deletes the file. At most 200.
    """
    listed = [
        _CHANGES.record(
            "Change",
            path=_host.text(path, "path"),
            contents=None if contents is None else _host.data(contents, "contents"),
            extra=[],
        )
        for path, contents in changes.items()
    ]
    _CHANGES.call("declare", listed)

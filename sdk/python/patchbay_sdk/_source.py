"""Positions in the source, as an author would write them."""

import os
import re
from types import CodeType

# componentize-py mounts the folders of the Python path as /0, /1, and so on, and the standard library as /python.
_MOUNT = re.compile(r"^/\d+/")
_SDK = os.path.dirname(__file__)
_PYTHON = os.path.dirname(os.__file__)
_RUNTIME = ("/world/", "/bundled/", "/python/", "<frozen ", _SDK + os.sep, _PYTHON + os.sep)


def is_authors(filename: str) -> bool:
    """Returns whether a file is the author's: neither the SDK's, nor the runtime's, nor the standard library's."""
    return "site-packages" in filename or not filename.startswith(_RUNTIME)


def short(filename: str) -> str:
    """Returns the path relative to the project."""
    mounted = _MOUNT.sub("", filename)
    if mounted != filename or not os.path.isabs(filename):
        return mounted
    here = os.getcwd() + os.sep
    return filename[len(here) :] if filename.startswith(here) else filename


def place(code: CodeType) -> str:
    """Returns `FILE:LINE` of a function."""
    return f"{short(code.co_filename)}:{code.co_firstlineno}"

"""The Python SDK for Patchbay skills: a skill is a module of decorated functions.

    from patchbay_sdk import Failure, tool

    @tool
    def hello(name: str) -> str:
        '''Greets a person by name.

        Args:
            name: Name of the person to greet.
        '''
        if not name.strip():
            raise Failure("invalid-input", "the name is empty")
        return f"Hello, {name}!"

Type hints become the JSON Schema of the input; the docstring becomes the descriptions. The host's functions are in the
modules `kv`, `http`, `workspace`, `workspace_changes`, `workspace_search`, `inference`, `tools`, `tool_calls`, `tool_index`, `skill_files`,
`call`, `log` and `progress`.

The package also imports in plain CPython, so tools can be unit-tested there. Host functions raise `SandboxError` outside
Patchbay; replace them with `unittest.mock`.
"""

from ._content import Blob, Content, Json, Link, Text
from ._errors import DeclarationError, Failure, HostError, SandboxError
from ._tool import tool

__all__ = [
    "Blob",
    "Content",
    "DeclarationError",
    "Failure",
    "HostError",
    "Json",
    "Link",
    "SandboxError",
    "Text",
    "tool",
]

"""The exceptions of the SDK."""


class Failure(Exception):
    """Why a tool call failed. Raise it in a tool; the caller receives kind and message.

    Args:
        kind: A stable word, such as `invalid-input`, `unavailable`, `failed`, or one of your own.
        message: What is wrong and what to do next, for the user or a model.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return self.message


class HostError(Failure):
    """A host function failed. If a tool does not catch it, the call fails with the same kind and message.

    `kind` is `denied`, `unavailable`, `invalid`, `not-found`, `too-large`, `too-deep`, `quota`, `timeout`, `conflict` or
    `failed`; later hosts may add more kinds.
    """


class SandboxError(RuntimeError):
    """The code used something that does not exist here, such as a clock in the sandbox, or the host in a unit test."""


class DeclarationError(TypeError):
    """A tool is declared in a way that has no JSON Schema. Raised while the skill is built."""

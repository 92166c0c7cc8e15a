from patchbay_sdk import Failure, tool


# Each function with @tool is a tool. Its type hints become the JSON Schema of the input, and its docstring the
# descriptions: a model chooses by them, so say what the tool does and when to use it.
@tool
def hello(name: str) -> str:
    """Greets a person by name.

    Args:
        name: Name of the person to greet.
    """
    if not name.strip():
        # The first word is for programs, the second text for people and models.
        raise Failure("invalid-input", "the name is empty")
    return f"Hello, {name}!"


# Import everything at the top of a file: the standard library is compiled in, but not there while a tool runs.
# What the host offers: `from patchbay_sdk import http, kv, workspace`. Each module in sdk/patchbay_sdk says what it needs.

"""The store. SKILL.md requests:

capabilities:
  - name: kv
    reason: keeps the counters
"""

from patchbay_sdk import Failure, HostError, kv, tool


@tool
def count(name: str, by: int = 1) -> int:
    """Adds to a counter and returns its new value. Counters start at 0 and are kept across sessions.

    Args:
        name: Name of the counter.
        by: How much to add.
    """
    # Another session may count at the same moment. `expect` makes sure that no addition is lost.
    for _ in range(5):
        entry = kv.get_entry(name)
        value = int(entry.value if entry else 0) + by
        try:
            kv.put(name, str(value), expect=entry.version if entry else 0)
            return value
        except HostError as error:
            if error.kind != "conflict":
                raise
    raise Failure("conflict", f"counter '{name}' is changed too often: try again")


@tool
def counters() -> list[str]:
    """Lists the names of the counters."""
    return list(kv.keys())

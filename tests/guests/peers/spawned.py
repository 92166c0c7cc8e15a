"""The tools as a program of their own: `spawned.py TOOL` reads the input on stdin and writes the result."""

import json
import sys


def echo(text: str) -> str:
    return text


def stats(text: str) -> dict[str, int]:
    data = text.encode()
    unended = data != b"" and not data.endswith(b"\n")
    return {"bytes": len(data), "lines": data.count(b"\n") + unended, "words": len(data.split())}


TOOLS = {"echo": echo, "stats": stats}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TOOLS:
        sys.exit(f"usage: spawned.py {'|'.join(TOOLS)}, with the input as JSON on stdin")
    result = TOOLS[sys.argv[1]](**json.load(sys.stdin))
    json.dump(result, sys.stdout, separators=(",", ":"))

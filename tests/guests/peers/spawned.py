"""The tools as a program of their own: `spawned.py TOOL` reads the input on stdin and writes the result."""

import json
import sys


def measure(text: str) -> dict[str, int]:
    data = text.encode()
    value = 2166136261
    for byte in data:
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return {"bytes": len(data), "hash": value, "points": len(text)}


TOOLS = {"measure": measure}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TOOLS:
        sys.exit(f"usage: spawned.py {'|'.join(TOOLS)}, with the input as JSON on stdin")
    result = TOOLS[sys.argv[1]](**json.load(sys.stdin))
    json.dump(result, sys.stdout, separators=(",", ":"))

"""Runs the checks of MCP against what others wrote, clients and servers: `make test-mcp`."""

import pathlib
import sys
import time

sys.path.insert(1, str(pathlib.Path(__file__).parents[1]))

import python_client
import servers
import typescript_client
from connections import PATCHBAY
from report import Report


def main():
    report, began = Report(), time.monotonic()
    if not PATCHBAY.exists():
        sys.exit(f"{PATCHBAY} is not built; run: make build")
    for part in (servers, python_client, typescript_client):
        print(f"-- {part.__doc__.splitlines()[0]}", flush=True)
        part.run(report)
    print(f"in {time.monotonic() - began:.0f} s")
    report.end()


if __name__ == "__main__":
    main()

"""The clients of the official TypeScript SDKs use `patchbay mcp`: version 1 with the handshake, version 2 without it."""

import contextlib
import json
import pathlib
import subprocess

import connections
from connections import PATCHBAY

HERE = pathlib.Path(__file__).parent
MODULES = HERE.parent / ".tools/node/node_modules"


def use(home, sdk, transport, served):
    """Runs the client in Node.js, which prints what is wrong and fails."""
    arguments = {"sdk": sdk, "modules": str(MODULES), "command": str(PATCHBAY), "workspace": str(home.workspace)}
    if served:
        arguments |= {"url": served[0], "authorization": served[1]}
    ran = subprocess.run(
        ["node", str(HERE / "typescript_client.mjs"), json.dumps(arguments)],
        env=home.environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    callers = {json.loads(line)["asker"] for line in home.run("journal", "--json").splitlines()}
    assert {"mcp:typescript", "mcp:typescript two"} <= callers, callers


def run(report):
    for transport in ("stdio", "http"):
        for sdk in ("1", "2"):
            with report.case(f"TypeScript SDK {sdk}, {transport}"), connections.home() as home:
                with home.http() if transport == "http" else contextlib.nullcontext() as served:
                    use(home, sdk, transport, served)

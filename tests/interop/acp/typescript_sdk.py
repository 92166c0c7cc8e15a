"""Drives the binary with the official TypeScript SDK."""

import json
import subprocess

from checks import TOOLS
from home import HERE, PNG

SECONDS = 120
CASES = ("prompts", "calls", "permission", "never", "editor", "cancel", "load")


def run(case, home):
    given = {"modules": str(TOOLS / "node/node_modules"), "case": case, "png": PNG, "workspace": str(home.workspace)}
    if websocket := home.websocket():
        url, headers = websocket
        given |= {"url": url, "headers": headers, "records": str(home.folder / "typescript")}
    else:
        given |= {"command": home.command("typescript"), "environment": home.environment()}
    ran = subprocess.run(
        ["node", HERE / "typescript.mjs", json.dumps(given)], cwd=home.workspace, env=home.environment(),
        capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, f"it ended with {ran.returncode}:\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}"

"""Drives the page with Chromium, and compares its question with the terminal's."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time

from checks import TOOLS
from home import HERE, PATCHBAY

SECONDS = 300
ESCAPES = re.compile(r"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[=>()][0-9A-B]?|\r")


def by_keyboard(home):
    home.set_delay(40)
    home.start("--open")
    given = {
        "modules": str(TOOLS / "node/node_modules"), "browser": shutil.which("chromium"), "url": home.started[0],
        "token": home.token, "link": home.started[-1].split()[-1], "made": str(home.workspace / "made.txt"),
    }
    ran = subprocess.run(
        ["node", HERE.parent / "serve/page.mjs", json.dumps(given)], cwd=home.workspace, env=home.environment(),
        capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, f"it ended with {ran.returncode}:\n{ran.stdout[-3000:]}{ran.stderr[-6000:]}"
    question = json.loads(ran.stdout.splitlines()[-1])
    (home.workspace / "made.txt").unlink()
    expected = [question["title"], *question["facts"], *(question["diff"] or "").splitlines()]
    in_terminal(home, 'call files__write {"path": "made.txt", "text": "one\\ntwo"}', [line.strip() for line in expected])


def in_terminal(home, line, expected):
    """Types a line in the terminal, and waits until all of `expected` is shown."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(home.workspace)
        os.execve(PATCHBAY, ["patchbay"], {**home.environment(), "TERM": "xterm-256color"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 200, 0, 0))
    shown, end, typed = "", time.monotonic() + 60, False
    try:
        while left := [text for text in expected if text not in shown]:
            assert time.monotonic() < end, f"the terminal does not show {left}:\n{shown[-3000:]}"
            if select.select([terminal], [], [], 0.5)[0]:
                shown += ESCAPES.sub("", os.read(terminal, 65536).decode(errors="replace"))
            elif not typed:
                # It has shown its first screen.
                os.write(terminal, line.encode() + b"\r")
                typed = True
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        os.close(terminal)


CASES = (by_keyboard,)

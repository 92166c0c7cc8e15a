"""Copies the databases with Litestream while lines run, kills everything, and restores: at most two seconds are lost."""

import json
import shlex
import shutil
import sqlite3
import subprocess
import time
import urllib.request

from checks import TOOLS, equal
from document import Page, wait_for
from home import PATCHBAY

PROGRAM = TOOLS / "litestream/bin/litestream"
# How long lines run, and how much of it may be lost.
RUNNING, LOST = 8, 2


def send(home, path, body):
    headers = home.headers | {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{home.url}/v1/{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def litestream(home, line):
    """Returns the words of a line of the page, and how it is run."""
    words = [str(PROGRAM), *shlex.split(line)[1:]]
    return words, {"cwd": home.folder, "env": home.environment(), "stdin": subprocess.DEVNULL}


def kill_and_restore(home):
    data = home.folder / "home/data"
    page = Page({"/home/ada/.local/share/patchbay": str(data), "/mnt/replica": str(home.folder / "replica")})
    (home.folder / "litestream.yml").write_text(page.take("yaml", "# litestream.yml"))
    replicate, *restore = page.take("sh", "litestream replicate").splitlines()
    session = send(home, "sessions", {"workspace": home.folder.name})["id"]
    send(home, f"sessions/{session}/lines?wait=60", {"text": "/calc 0"})
    words, options = litestream(home, replicate)
    with open(home.folder / "litestream.log", "w") as log:
        copying = subprocess.Popen(words, stdout=log, stderr=log, **options)
        try:
            wait_for(lambda: [*(home.folder / "replica/patchbay").rglob("*.ltx")], lambda: "the first copy")
            acknowledged, began = [], time.monotonic()
            while time.monotonic() - began < RUNNING:
                line = len(acknowledged) + 1
                send(home, f"sessions/{session}/lines?wait=60", {"text": f"/calc {line}"})
                acknowledged.append(time.monotonic())
        finally:
            copying.kill()
            home.server.kill()
            killed = time.monotonic()
            copying.wait()
            home.server.wait()
            home.server = None

    restored = home.folder / "restored"
    for line in restore:
        words, options = litestream(home, line)
        ran = subprocess.run(words, capture_output=True, text=True, timeout=60, **options)
        assert ran.returncode == 0, f"{line}: {ran.stdout}{ran.stderr}"
    with sqlite3.connect(restored / "data/patchbay.db") as database:
        rows = database.execute("SELECT content FROM messages WHERE kind = 'command' ORDER BY seq").fetchall()
    lines = [int(content.removeprefix("/calc ")) for (content,) in rows]
    equal(lines, list(range(len(lines))), "a hole in what was restored")
    lost = acknowledged[max(len(lines) - 1, 0):]
    took = killed - lost[0] if lost else 0
    print(f"{len(acknowledged)} lines acknowledged, {len(lost)} lost: the last {took:.2f} s")
    assert len(lines) > 1 and took <= LOST, f"{took:.2f} s are lost"

    for folder in ("components", "attachments", "skill-files"):
        if (data / folder).exists():
            shutil.copytree(data / folder, restored / "data" / folder)
    environment = home.environment() | {"PATCHBAY_HOME": str(restored)}
    for words in (["doctor"], ["exec", "--session", session, "/calc 6*7"]):
        ran = subprocess.run(
            [PATCHBAY, *words], cwd=home.workspace, env=environment, capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL,
        )
        assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
    equal(ran.stdout.strip(), "42")


CASES = (kill_and_restore,)

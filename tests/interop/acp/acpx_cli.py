"""Drives the binary with acpx, a client for the command line."""

import json
import shlex
import subprocess
import time

from checks import TOOLS, equal

ACPX = TOOLS / "node/node_modules/acpx/dist/cli.js"
SECONDS = 120
DENIED = 5  # The exit code of acpx if a permission was denied.
WRITE = 'call files__write {"path": "made.txt", "text": "made"}'


def command(home, *arguments):
    return ["node", str(ACPX), "--agent", shlex.join(home.command("acpx")), "--ttl", "1", *arguments]


def acpx(home, *arguments, code=0):
    """Runs acpx. Returns its standard output."""
    ran = subprocess.run(
        command(home, *arguments), cwd=home.workspace, env=home.environment(), capture_output=True, text=True,
        timeout=SECONDS, stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == code, f"acpx ended with {ran.returncode}:\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}"
    return ran.stdout


def said(home, line):
    return acpx(home, "--format", "quiet", "exec", line).strip()


def one_shot(home):
    equal(said(home, "say Good day."), "Good day.")
    equal(said(home, "/calc 2^100"), str(2**100))
    equal(said(home, "/nothing"), "Error: unknown command '/nothing'.")


def permission(home):
    made = home.workspace / "made.txt"
    acpx(home, "--deny-all", "exec", WRITE, code=DENIED)
    equal(made.exists(), False)
    acpx(home, "--approve-all", "exec", WRITE)
    equal(made.read_text(), "made")


def session(home):
    """Each prompt may be another process of acpx and of the agent: the session goes on where it was."""
    acpx(home, "sessions", "new")
    equal(acpx(home, "--format", "quiet", "prompt", "say One.").strip(), "One.")
    for prompts, seconds in enumerate((3, 10, 30), 1):
        time.sleep(seconds)  # The agent of the last prompt ends a second after it, on a busy machine later.
        shown = acpx(home, "--format", "quiet", "prompt", "show context")
        assert f"messages: {2 * prompts + 1}\n" in shown, shown
        if len(home.records()) > 1:
            return
    raise AssertionError(home.records())


def cancel(home):
    home.set_delay(20)
    acpx(home, "sessions", "new")
    prompt = subprocess.Popen(
        command(home, "--format", "json", "prompt", "repeat 3000 word"), cwd=home.workspace, env=home.environment(),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True,
    )
    try:
        reason = None
        for line in prompt.stdout:
            message = json.loads(line)
            if reason is None and "agent_message_chunk" in line:
                acpx(home, "cancel")
                reason = "asked for"
            reason = (message.get("result") or {}).get("stopReason", reason)
        equal(reason, "cancelled")
    finally:
        prompt.kill()
        prompt.wait()


CASES = (one_shot, permission, session, cancel)


def run(case, home):
    case(home)

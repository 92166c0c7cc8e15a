"""Patchbay uses servers made with the official SDKs for Python and TypeScript, over standard input and output and over HTTP."""

import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import time

import connections

HERE = pathlib.Path(__file__).parent
MODULES = HERE.parent / ".tools/node/node_modules"
SECRET = "interop-secret"

SERVERS = {
    "Python SDK": [sys.executable, str(HERE / "python_server.py")],
    "TypeScript SDK": ["node", str(HERE / "typescript_server.mjs"), str(MODULES)],
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port):
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError("the server does not listen")


@contextlib.contextmanager
def served(home, command, transport):
    """Configures the server `test`, and runs it if it is one over HTTP."""
    config = home.folder / "home/config/config.toml"
    config.parent.mkdir(parents=True)
    if transport == "stdio":
        words = json.dumps([*command, "stdio"])
        config.write_text(f"[mcp.test]\ncommand = {words}\n")
        yield
        return
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    config.write_text(
        f'[mcp.test]\nurl = "{origin}/mcp"\ncredential = "test"\n[credentials.test]\norigin = "{origin}"\n'
    )
    (config.parent / "credentials.json").write_text(json.dumps({"test": {"api_key": SECRET}}))
    (config.parent / "credentials.json").chmod(0o600)
    with subprocess.Popen([*command, "http", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(port)
            yield
        finally:
            server.kill()


def use(home):
    checked = home.run("mcp", "check", "test", "--json")
    report = json.loads(checked)
    decisions = {tool["name"]: tool["decision"] for tool in report["tools"]}
    assert decisions["mcp__test__add"] == "allow" and decisions["mcp__test__write"] == "ask", decisions
    assert report["problems"] == [], report["problems"]
    lines = [
        'call mcp__test__add {"left": 2, "right": 40}',
        'call mcp__test__add {"left": "x", "right": 40}',
        "call mcp__test__picture {}",
        "call mcp__test__fail {}",
        'call mcp__test__write {"text": "x"}',
    ]
    said = home.run("exec", *lines)
    for words in ('"total":42', "is invalid: at /left", "image", "the disk is full", "it is not allowed"):
        assert words in said, f"{words}\n{said}"
    outcomes = [json.loads(line)["outcome"] for line in home.run("journal", "--json").splitlines()]
    assert outcomes == ["ok", "invalid_input", "ok", "tool_failed", "denied"], outcomes
    events = [json.loads(line) for line in home.run("exec", "--json", 'call mcp__test__slow {"steps": 3}').splitlines()]
    progress = [(event["tool"], event["text"]) for event in events if event.get("event") == "progress"]
    assert progress == [("mcp__test__slow", f"step {step}") for step in range(3)], progress
    for file in home.folder.rglob("*"):
        if file.is_file() and file.name != "credentials.json":
            assert SECRET.encode() not in file.read_bytes(), f"the secret is in {file}"


def run(report):
    for name, command in SERVERS.items():
        for transport in ("stdio", "http"):
            with report.case(f"{name}, server over {transport}"), connections.home() as home:
                with served(home, command, transport):
                    use(home)

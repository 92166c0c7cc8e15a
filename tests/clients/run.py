#!/usr/bin/env python3
"""Builds an Agent Plugin and installs it in clients of others, each in a fresh home and without a network. `make test-clients` calls
it: run.py BINARY FOLDER-OF-CLIENTS COMPONENT."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAME = "acme-math"
POWER = "1267650600228229401496703205376"
GREETING = "---\nsummary: Greets people\n---\nGreet the person by name.\n"


def run(words, environment, cwd=None):
    """Runs a command that must succeed, and returns both of its outputs."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=cwd, timeout=180)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def must(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def offline():
    """Returns the words that start a program without a network. Where the system has no namespaces, a proxy that does not exist has to
    do (see `Client`)."""
    for words in [["unshare", "--net"], ["unshare", "--map-root-user", "--net"]]:
        if shutil.which("unshare") and subprocess.run(words + ["true"], capture_output=True).returncode == 0:
            return words
    return []


class Client:
    """A client with a home of its own."""

    def __init__(self, name, bin, work, patchbay, offline):
        home = work / name
        home.mkdir()
        self.command = offline + [str(bin / name)]
        self.environment = {
            "HOME": str(home), "TERM": "dumb", "PATH": f"{patchbay.parent}:{os.environ['PATH']}",
            "PATCHBAY_HOME": str(work / "patchbay"), "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9",
        }
        self.home = home

    def __call__(self, *words):
        return run(self.command + list(words), self.environment, self.home)


def test_codex(client, market):
    client("plugin", "marketplace", "add", market)
    client("plugin", "add", f"{NAME}@{NAME}")
    listed = client("plugin", "list")
    must(f"{NAME}@{NAME}" in listed and "installed, enabled" in listed, listed)
    prompt = client("debug", "prompt-input", "Hello")
    must(f"{NAME}:calc" in prompt and f"{NAME}:greeting" in prompt, "the model is told of both skills")
    servers = client("mcp", "list", "--json")
    [server] = json.loads(servers[servers.index("["):servers.rindex("]") + 1])
    must(server["name"] == NAME and server["enabled"], server)
    call_server(server["transport"], client.environment)


def call_server(transport, environment):
    """Starts the server exactly as the client lists it, and calls a tool."""
    root = Path(transport["cwd"])
    must((root / "skills/calc/calc.wasm").is_file() and transport["args"][-1] == str(root), transport)
    server = subprocess.Popen([transport["command"], *transport["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=environment | transport["env"], cwd=root)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    call = {"name": "calc__eval", "arguments": {"expression": "2^100"}}
    for message in [{"id": 1, "method": "initialize", "params": hello}, {"method": "notifications/initialized"},
                    {"id": 2, "method": "tools/list"}, {"id": 3, "method": "tools/call", "params": call}]:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()
    answers = {}
    while len(answers) < 3:
        line = server.stdout.readline()
        must(line, f"the server ended after {answers}")
        message = json.loads(line)
        if "id" in message:
            answers[message["id"]] = message
    tools = [tool["name"] for tool in answers[2]["result"]["tools"]]
    must(tools == ["calc__eval"], tools)
    must(POWER in json.dumps(answers[3]["result"]), answers[3])
    server.stdin.close()
    must(server.wait(20) == 0, f"the server ended with {server.returncode}")


def test_copilot(client, market):
    client("plugin", "marketplace", "add", market)
    client("plugin", "install", f"{NAME}@{NAME}")
    listed = client("plugin", "list")
    must(f"{NAME}@{NAME}" in listed and "(enabled)" in listed, listed)
    skills = client("skill", "list")
    must("calc - " in skills and "greeting - Greets people" in skills, skills)
    servers = client("mcp", "list")
    must(NAME in servers, servers)


def test_claude(client, market):
    client("plugin", "marketplace", "add", market)
    client("plugin", "install", f"{NAME}@{NAME}")
    listed = client("plugin", "list")
    must(f"{NAME}@{NAME}" in listed, listed)
    details = client("plugin", "details", NAME)
    must("Skills (2)" in details and "calc" in details and f"MCP servers (1)  {NAME}" in details, details)
    # Claude Code starts the server to check its health.
    servers = client("mcp", "list")
    must(f"plugin:{NAME}:{NAME}" in servers and "Connected" in servers, servers)


def main():
    binary, bin, component = [Path(word).resolve() for word in sys.argv[1:4]]
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="patchbay-clients-")))
        (work / "greeting").mkdir()
        (work / "greeting/SKILL.md").write_text(GREETING)
        market = work / NAME
        environment = os.environ | {"PATCHBAY_HOME": str(work / "patchbay")}
        built = run([binary, "plugin", "build", component, work / "greeting", "--agent-plugin", market, "--marketplace", "--claude"],
                    environment)
        must("skill calc, with tools: " in built and "skill greeting: Greets people" in built, built)
        words = offline()
        print("without a network" if words else "with a proxy that does not exist", flush=True)
        for test in [test_codex, test_copilot, test_claude]:
            name, start = test.__name__.removeprefix("test_"), time.monotonic()
            client = Client(name, bin, work, binary, words)
            version = re.search(r"\d+\.\d+\.\d+", client("--version"))[0]
            test(client, market)
            print(f"{name} {version}: {time.monotonic() - start:.0f} s", flush=True)
    print("test result: 3 passed, 0 failed")


if __name__ == "__main__":
    main()

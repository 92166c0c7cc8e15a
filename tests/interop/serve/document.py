"""Runs the lines of docs/serve.md, in the order of the page."""

import contextlib
import json
import re
import shlex
import shutil
import socket
import subprocess
import time

from checks import equal
from home import HERE, PATCHBAY

DOCUMENT = HERE.parents[2] / "docs/serve.md"
SECONDS = 60
EXAMPLE = "patchbay.example.org"
# The blocks that only `make test-serve-all` runs: proxy.py and litestream.py.
OTHERS = [
    # Claude Code is not installed; serve_routes tests the address.
    'claude mcp add --transport http patchbay "https://patchbay.example.org/mcp?workspace=app" --header "Authorization: Bearer $TOKEN"',
    "# Caddyfile",
    "# litestream.yml",
    "litestream replicate -config litestream.yml",
]


class Page:
    """The fenced blocks of the page, each used once."""

    def __init__(self, names):
        """`names`: what stands for names of the page on this machine."""
        self.names = names
        self.left = re.findall(r"^```(\w+)\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)

    def take(self, language, beginning):
        """Returns the block that begins so, with the names of this machine."""
        [found] = [block for block in self.left if block[0] == language and block[1].startswith(beginning)]
        self.left.remove(found)
        text = found[1]
        for name, here in self.names.items():
            text = text.replace(name, here)
        return text


class Bridge:
    """An editor's side of the bridge."""

    def __init__(self, command, cwd, environment):
        self.process = subprocess.Popen(
            shlex.split(command), cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        self.cwd, self.ids = str(cwd), 0
        self.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        self.session = self.call("session/new", {"cwd": self.cwd, "mcpServers": []})[0]["sessionId"]

    def call(self, method, params):
        """Sends a request. Returns its result, and the text that came before."""
        self.ids += 1
        print(json.dumps({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}), file=self.process.stdin, flush=True)
        text = ""
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.ids and "method" not in message:
                assert "result" in message, line
                return message["result"], text
            update = (message.get("params") or {}).get("update") or {}
            if update.get("sessionUpdate") == "agent_message_chunk":
                text += update["content"]["text"]
        raise AssertionError(f"the bridge ended with {self.process.wait()}")

    def say(self, line):
        prompt = {"sessionId": self.session, "prompt": [{"type": "text", "text": line}]}
        return self.call("session/prompt", prompt)[1].strip()

    def leave(self):
        self.process.stdin.close()
        equal(self.process.wait(SECONDS), 0, "how the bridge ended")


class Machine:
    """A user's home folder without a configuration, with the binary in the PATH."""

    def __init__(self, folder):
        self.folder = folder / "machine"
        self.binary = self.folder / ".local/bin/patchbay"
        self.binary.parent.mkdir(parents=True)
        self.binary.symlink_to(PATCHBAY)
        self.environment = {"PATH": f"{self.binary.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.folder)}
        self.server = None

    def shell(self, text):
        """Runs lines in a shell. Returns their output."""
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text], cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=SECONDS, stdin=subprocess.DEVNULL,
        )
        assert ran.returncode == 0, f"it ended with {ran.returncode}: {text}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def serve(self, command):
        """Starts a server. Returns the lines that it prints at its start."""
        self.server = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL, text=True,
        )
        lines = 3 if command.endswith("--open") else 1
        return [self.server.stdout.readline().strip() for _ in range(lines)]

    def close(self):
        """Ends the server as a supervisor does."""
        if self.server:
            self.server.terminate()
            try:
                equal(self.server.wait(SECONDS), 0, "how the server ended")
            finally:
                self.server.kill()
                self.server = None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def status(url, *headers):
    words = [word for header in headers for word in ("-H", header)]
    return subprocess.run(
        ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *words, url], capture_output=True, text=True, timeout=SECONDS,
    ).stdout


def lines_of_the_page(home):
    missing = [program for program in ("bash", "curl", "jq") if not shutil.which(program)]
    assert not missing, f"the lines of the page need {', '.join(missing)}: install them"
    machine = Machine(home.folder)
    port = free_port()
    address, url = f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"
    page = Page({"/home/ada": str(machine.folder), "127.0.0.1:7420": address, "/var/backups": str(home.folder / "backups")})

    *made, serve = page.take("sh", "mkdir -p").splitlines()
    machine.shell("\n".join(made))
    with contextlib.closing(machine):
        printed, first, link = machine.serve(serve)
        equal((printed, first.split()[-1]), (url, str(machine.folder / ".local/state/patchbay/serve.token")))
        assert link.split()[-1].startswith(f"{url}/open#"), link

        laptop, *others = page.take("sh", "patchbay token add laptop").splitlines()
        token = machine.folder / ".config/patchbay/laptop.token"
        token.write_text(machine.shell(laptop))
        for line in others:
            machine.shell(line)
        equal(machine.shell("patchbay token list --json | jq -r .name").split(), ["first", "laptop"])

        editor = home.folder / "editor"
        editor.mkdir()
        command = page.take("sh", "patchbay acp --connect")
        command = command.replace(f"wss://{EXAMPLE}", f"ws://{address}").replace("~", str(machine.folder))
        bridge = Bridge(command, editor, machine.environment)
        equal(bridge.say("say Hello."), "Hello.")

        # The last line follows events until it is stopped.
        script = page.take("sh", "export URL=").replace("\ncurl -sN", "\ntimeout 3 curl -sN") + "\n[ $? = 124 ]"
        done = machine.shell(f"set +e\n{script}")
        assert '"is_repeated":false' in done and '"status":"ok"' in done, done
        assert "id: 1\n" in done and "Why does the build fail?" in done, done

        # An upgrade: the binary is replaced, and the service is started again, here with the settings of a proxy.
        unit = page.take("ini", "# ~/.config/systemd/user/patchbay.service")
        [start] = [line.removeprefix("ExecStart=") for line in unit.splitlines() if line.startswith("ExecStart=")]
        if shutil.which("systemd-analyze"):
            file = machine.folder / "patchbay.service"
            file.write_text(unit.replace("%h", str(machine.folder)))
            machine.shell(f"systemd-analyze verify --man=no {shlex.quote(str(file))}")
        config = machine.folder / ".config/patchbay/config.toml"
        proxy = page.take("toml", "[serve]\nbehind_proxy")
        config.write_text(config.read_text().replace("[serve]\n", proxy))
        machine.close()
        machine.binary.unlink()
        machine.binary.hardlink_to(PATCHBAY)
        equal(machine.serve(start.replace("%h", str(machine.folder))), [url])
        equal(bridge.say("say Again."), "Again.")
        equal([status(f"{url}/{path}", f"Host: {EXAMPLE}") for path in ("healthz", "readyz", "")], ["200", "200", "401"])
        equal(status(f"{url}/readyz", "Host: elsewhere.example"), "421")

        backup = page.take("sh", "patchbay backup")
        machine.shell(backup)
        bridge.leave()

    equal([text.splitlines()[0] for _, text in page.left], OTHERS, "blocks that no test runs")


CASES = (lines_of_the_page,)


def wait_for(condition, what):
    """Waits until `condition()`; `what` describes it for the failure."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, f"in {SECONDS} s: {what()}"
        time.sleep(0.1)

"""Homes with a running `patchbay serve`. SDKs connect to it by a WebSocket; clients that start programs start the bridge."""

import functools
import json
import subprocess

from checks import equal
from home import PATCHBAY, Home

SECONDS = 30


class Served(Home):
    shared = True

    def __init__(self, folder, cache):
        self.server = None
        super().__init__(folder, cache)

    def configure(self, text):
        # JSON's strings are those of TOML.
        folders = json.dumps([str(self.workspace), str(self.folder)])
        super().configure(f"{text}\n[serve]\nlisten = \"127.0.0.1:0\"\nworkspaces = {folders}\n")

    def patchbay(self, *words):
        """Runs the binary in this home. Returns its standard output."""
        command = [PATCHBAY, *map(str, words)]
        ran = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, f"{words} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    @functools.cached_property
    def token(self):
        return self.patchbay("token", "add", "interop", "--may", "lines,answers,grants").strip()

    @property
    def headers(self):
        return {"Authorization": f"Bearer {self.token}"}

    @functools.cached_property
    def url(self):
        """The URL of the server, which is started when it is first needed."""
        if not self.server:
            self.start()
        return self.started[0]

    def start(self, *words):
        """Starts the server. Its first lines are then in `started`: the URL, and with `--open` the link."""
        assert self.token
        command = [PATCHBAY, "serve", *words]
        self.server = subprocess.Popen(
            command, env=self.environment(), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        )
        self.started = [self.server.stdout.readline().strip() for _ in range(1 + len(words))]

    def websocket(self):
        return self.url.replace("http", "ws", 1) + "/acp", self.headers

    def close(self):
        if self.server:
            self.server.terminate()
            try:
                equal(self.server.wait(SECONDS), 0, "how the server ended")
            finally:
                self.server.kill()


class Bridged(Served):
    def __init__(self, folder, cache):
        super().__init__(folder, cache)
        # The folder of the sessions.
        self.remote = self.folder / "remote"
        self.remote.mkdir()

    def websocket(self):
        return None

    def command(self, name):
        file = self.folder / "token"
        file.write_text(self.token)
        bridge = ["--connect", self.url, "--workspace", str(self.remote), "--token-file", str(file)]
        return [*super().command(name), *bridge]

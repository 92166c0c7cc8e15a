"""A home for one case, and the ways by which a client reaches `patchbay mcp` in it."""

import contextlib
import os
import pathlib
import subprocess
import tempfile

PATCHBAY = pathlib.Path(__file__).parents[3] / "target/debug/patchbay"


class Home:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.workspace = self.folder / "workspace"
        self.workspace.mkdir()

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PATCHBAY_HOME": str(self.folder / "home")}

    def run(self, *arguments):
        """The standard output of a command that succeeds."""
        ran = subprocess.run(
            [PATCHBAY, *arguments], env=self.environment(), cwd=self.workspace, capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, f"{arguments}: {ran.stderr}"
        return ran.stdout

    @contextlib.contextmanager
    def http(self):
        """A server over HTTP. Yields its URL and the header of its token."""
        command = [PATCHBAY, "mcp", "--http"]
        with subprocess.Popen(
            command, env=self.environment(), cwd=self.workspace, stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                url = server.stdout.readline().strip()
                header = server.stdout.readline().strip()
                assert url.startswith("http://127.0.0.1:") and header.startswith("Authorization: Bearer "), (url, header)
                yield url, header.split(": ", 1)[1]
            finally:
                server.terminate()
                assert server.wait(timeout=30) == 0, "the server ends cleanly"


@contextlib.contextmanager
def home():
    with tempfile.TemporaryDirectory() as folder:
        yield Home(folder)

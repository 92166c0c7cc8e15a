"""A home and a workspace for one case, the command that runs the binary in it, and the records of its connections."""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
PATCHBAY = HERE.parents[2] / "target/debug/patchbay"
WIRE = HERE / "wire.py"
# A picture of one pixel.
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
# `%PDF-1.7`.
PDF = "JVBERi0xLjc="


class Home:
    # Whether other clients can be on the same session.
    shared = False

    def __init__(self, folder, cache):
        self.folder = pathlib.Path(folder)
        self.workspace = self.folder / "workspace"
        self.workspace.mkdir()
        self.config = self.folder / "home/config"
        self.config.mkdir(parents=True)
        # Skills are compiled once for all cases.
        (self.folder / "home/cache").symlink_to(cache)
        self.set_delay(0)

    def set_delay(self, milliseconds):
        """Sets the time between two words of the model."""
        self.configure(f'[providers.demo]\noptions = {{ delay-ms = "{milliseconds}" }}\n')

    def configure(self, text):
        (self.config / "config.toml").write_text(text)

    def skill(self, name, frontmatter, instructions="Do it: $INPUT"):
        folder = self.config / "skills" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\n{frontmatter}\n---\n{instructions}\n")

    def persona(self, name, soul):
        folder = self.config / "agents" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SOUL.md").write_text(soul)

    def command(self, name):
        """Returns the command of an agent whose connections are recorded as `name`."""
        return [sys.executable, str(WIRE), str(self.folder / name), str(PATCHBAY), "acp"]

    def websocket(self):
        """Returns the URL and the headers for SDKs that connect to a server; `None` if they start the binary."""
        return None

    def close(self):
        """Ends what runs in this home."""

    def records(self):
        return sorted(self.folder.glob("*.record"))

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PATCHBAY_HOME": str(self.folder / "home")}

#!/usr/bin/env python3
"""Sets the version everywhere: `make version V=0.2.0`. A test of `tests/architecture` keeps the files equal."""

import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The first line of each of these files that matches the pattern has the version.
TOML = r'^version = "(.*)"$'
JSON = r'^  "version": "(.*)",$'
FILES = {
    "Cargo.toml": TOML,
    "plugins/Cargo.toml": TOML,
    "sdk/rust/Cargo.toml": TOML,
    "sdk/rust-provider/Cargo.toml": TOML,
    "sdk/python/pyproject.toml": TOML,
    "sdk/js/package.json": JSON,
    "agent.json": JSON,
}
# The packages that users install. Names of pre-releases differ between kinds of packages, so only others stand there.
DOCUMENT = {"docs/install.md": r"patchbay-(\d\S*)-linux-x86_64\.tar\.gz"}
# Workspaces whose Cargo.lock names crates of ours.
LOCKED = [".", "plugins", "tests/guests/wasip2"]


def main():
    version = sys.argv[1] if len(sys.argv) == 2 else ""
    if not re.fullmatch(r"\d+\.\d+\.\d+(-[0-9a-z.]+)?", version):
        sys.exit(f"'{version}' is not a version such as 0.2.0 or 0.2.0-rc.1; run: make version V=0.2.0")
    changelog = (ROOT / "CHANGELOG.md").read_text()
    if not re.search(r"^## Unreleased\n\n(?!## )", changelog, re.MULTILINE):
        sys.exit("CHANGELOG.md has nothing under '## Unreleased', so there is nothing to release")
    for path, pattern in (FILES | ({} if "-" in version else DOCUMENT)).items():
        text = (ROOT / path).read_text()
        found = re.search(pattern, text, re.MULTILINE)
        if not found:
            sys.exit(f"{path} has no line like {pattern}")
        text = text[: found.start(1)] + version + text[found.end(1) :]
        # The names of archives and packages contain it.
        (ROOT / path).write_text(text.replace(found[1], version) if path == "agent.json" or path in DOCUMENT else text)
    today = datetime.date.today().isoformat()
    changelog = changelog.replace("## Unreleased\n", f"## Unreleased\n\n## {version} - {today}\n", 1)
    (ROOT / "CHANGELOG.md").write_text(changelog)
    for folder in LOCKED:
        subprocess.run(["cargo", "update", "--quiet", "--offline", "--workspace"], cwd=ROOT / folder, check=True)
    print(f"the version is {version}; review the changes with: git diff")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Prints every crate in the program for TARGET or in its bundled plugins, with its licence and the texts that come with it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import release


def linked(folder, target, is_root):
    """Returns the crates of others that the crates `is_root` of the workspace in `folder` link."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, waiting = set(), [name for name in metadata["workspace_members"] if is_root(packages[name]["name"])]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [dependency["pkg"] for dependency in nodes[name]["deps"]
                        if any(kind["kind"] is None for kind in dependency["dep_kinds"])]
    # Ours are those without an origin.
    crates = [packages[name] for name in found if packages[name]["source"]]
    return {(crate["name"], crate["version"]): crate for crate in crates}


def main():
    target = sys.argv[1]
    crates = linked(release.ROOT, target, lambda name: name == "patchbay")
    crates |= linked(release.ROOT / "plugins", "wasm32-unknown-unknown", lambda name: True)
    crates = [crate for _, crate in sorted(crates.items())]
    texts = {}
    print(f"Patchbay for {target} contains these {len(crates)} crates.\n")
    for crate in crates:
        numbers = []
        for path in sorted(Path(crate["manifest_path"]).parent.iterdir()):
            if path.is_file() and re.match(r"(?i)(licen[sc]e|copying|notice|unlicense)", path.name):
                text = path.read_text(errors="replace").strip()
                numbers.append(texts.setdefault(text, len(texts) + 1))
        place = f"; texts {', '.join(map(str, numbers))}" if numbers else "; no text in the crate"
        print(f"{crate['name']} {crate['version']}: {crate['license'] or 'see its text'}{place}")
    for text, number in texts.items():
        print(f"\n{'=' * 40} text {number}\n\n{text}")


if __name__ == "__main__":
    main()

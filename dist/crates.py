#!/usr/bin/env python3
"""Writes THIRD-PARTY, the licences of all crates in the program for TARGET and in its bundled plugins, and a CycloneDX list of the
program's crates: crates.py TARGET FOLDER"""

import json
import re
import subprocess
import sys
from pathlib import Path

import release


def linked(folder, target, is_root):
    """Returns the crates of others that the crates `is_root` of the workspace in `folder` link, by the lock file."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, waiting = set(), [name for name in metadata["workspace_members"] if is_root(packages[name]["name"])]
    while waiting:
        name = waiting.pop()
        # What only runs while it compiles is not in the program.
        if name not in found and not any("proc-macro" in kind["kind"] for kind in packages[name]["targets"]):
            found.add(name)
            waiting += [dependency["pkg"] for dependency in nodes[name]["deps"]
                        if any(kind["kind"] is None for kind in dependency["dep_kinds"])]
    # Ours are those without an origin. Old manifests write "MIT/Apache-2.0", which SPDX does not know.
    for package in packages.values():
        package["license"] = re.sub(" ?/ ?", " OR ", package["license"] or "")
    crates = [packages[name] for name in found if packages[name]["source"]]
    return {(crate["name"], crate["version"]): crate for crate in crates}


def third_party(crates, target):
    """Returns the licences of crates; each text stands once."""
    texts, lines = {}, [f"Patchbay for {target} contains these {len(crates)} crates.\n"]
    for _, crate in sorted(crates.items()):
        numbers = []
        for path in sorted(Path(crate["manifest_path"]).parent.iterdir()):
            if path.is_file() and re.match(r"(?i)(licen[sc]e|copying|notice|unlicense)", path.name):
                text = path.read_text(errors="replace").strip()
                numbers.append(str(texts.setdefault(text, len(texts) + 1)))
        place = f"; texts {', '.join(numbers)}" if numbers else "; no text in the crate"
        lines.append(f"{crate['name']} {crate['version']}: {crate['license'] or 'see its text'}{place}")
    return "\n".join(lines + [f"\n{'=' * 40} text {number}\n\n{text}" for text, number in texts.items()]) + "\n"


def bill(crates):
    """Returns a CycloneDX 1.5 document. It has no serial number and no time, which would differ with each build."""
    components = [{"type": "library", "bom-ref": f"pkg:cargo/{name}@{version}", "name": name, "version": version,
                   "purl": f"pkg:cargo/{name}@{version}", "licenses": [{"expression": crate["license"]}] if crate["license"] else []}
                  for (name, version), crate in sorted(crates.items())]
    version = re.search(r'^version = "(.*)"$', (release.ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    program = {"type": "application", "name": "patchbay", "version": version, "licenses": [{"expression": release.LICENSE}]}
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": program},
                "components": components}
    return json.dumps(document, indent=1) + "\n"


def main():
    target, folder = sys.argv[1], Path(sys.argv[2])
    crates = linked(release.ROOT, target, lambda name: name == "patchbay")
    plugins = linked(release.ROOT / "plugins", "wasm32-unknown-unknown", lambda name: True)
    (folder / "THIRD-PARTY").write_text(third_party(crates | plugins, target))
    (folder / "sbom.cdx.json").write_text(bill(crates))


if __name__ == "__main__":
    main()

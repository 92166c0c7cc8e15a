#!/usr/bin/env python3
"""Writes patchbay-VERSION-linux-MACHINE.tar.gz: the program, licences, completions, the manual page and the changelog."""

import release


def main():
    given = release.arguments(__doc__)
    names = {"patchbay.1": "man/man1/", "patchbay.bash": "completions/", "_patchbay": "completions/",
             "patchbay.fish": "completions/"}
    files = {names.get(name, "") + name: data for name, data in release.extra(given).items()}
    files |= release.licences() | {"CHANGELOG.md": (release.ROOT / "CHANGELOG.md").read_bytes()}
    entries = {path: (data, 0o644) for path, data in files.items()}
    entries["patchbay"] = (given.binary.read_bytes(), 0o755)
    name = f"patchbay-{given.version}-linux-{given.machine}"
    release.write(given.out / f"{name}.tar.gz", release.gzipped(release.tar(entries, f"{name}/")))


if __name__ == "__main__":
    main()

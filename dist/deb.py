#!/usr/bin/env python3
"""Writes patchbay_VERSION_ARCH.deb with dpkg-deb. Nothing runs at installation or removal."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import release

CONTROL = """\
Package: patchbay
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size}
Recommends: ca-certificates
Section: utils
Priority: optional
Homepage: {homepage}
Description: agent host with sandboxed WebAssembly extensions
 Patchbay runs AI agents whose tools are sandboxed WebAssembly components. A
 skill that someone else wrote gets exactly the access that you grant it.
"""
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Patchbay
Source: {homepage}

Files: *
Copyright: 2026 The Patchbay authors
License: MIT or Apache-2.0
 The licences of the libraries in the program are in THIRD-PARTY.gz.

License: Apache-2.0
 On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.

License: MIT
"""
# A program that runs everywhere is static on purpose.
OVERRIDES = "patchbay: statically-linked-binary [usr/bin/patchbay]\n"
CHANGELOG = "patchbay ({version}) unstable; urgency=medium\n\n  * Release {version}.\n\n -- {maintainer}  {date}\n"
PLACES = {
    "patchbay.1": "usr/share/man/man1/patchbay.1.gz",
    "patchbay.bash": "usr/share/bash-completion/completions/patchbay",
    "_patchbay": "usr/share/zsh/vendor-completions/_patchbay",
    "patchbay.fish": "usr/share/fish/vendor_completions.d/patchbay.fish",
    "THIRD-PARTY": "usr/share/doc/patchbay/THIRD-PARTY.gz",
}


def main():
    given = release.arguments(__doc__, compression=("xz", "as dpkg-deb -Z"))
    version = given.version.replace("-", "~")
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(release.epoch()))
    facts = {"version": version, "architecture": release.DEBIAN[given.machine], "maintainer": release.MAINTAINER,
             "homepage": release.HOMEPAGE, "date": date, "size": given.binary.stat().st_size // 1024 + 1}
    files = {PLACES[name]: data for name, data in release.extra(given).items()}
    licence = release.licences()["LICENSE-MIT"].decode().splitlines()
    text = COPYRIGHT.format(**facts) + "".join(f" {line.rstrip() or '.'}\n" for line in licence)
    files["usr/share/doc/patchbay/copyright"] = text.encode()
    files["usr/share/lintian/overrides/patchbay"] = OVERRIDES.encode()
    files["usr/share/doc/patchbay/changelog.gz"] = CHANGELOG.format(**facts).encode()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        for path, data in files.items():
            place(root / path, release.gzipped(data) if path.endswith(".gz") else data, 0o644)
        place(root / "usr/bin/patchbay", given.binary.read_bytes(), 0o755)
        place(root / "DEBIAN/control", CONTROL.format(**facts).encode(), 0o644)
        target = given.out / f"patchbay_{version}_{facts['architecture']}.deb"
        command = ["dpkg-deb", f"-Z{given.compression}", "--root-owner-group", "--build", root, target]
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(release.epoch())}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    print(target)


def place(path, data, mode):
    """Writes a file of the package, in folders that everyone may read."""
    for folder in reversed([path.parent, *path.parent.parents]):
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)
    path.write_bytes(data)
    path.chmod(mode)


if __name__ == "__main__":
    main()

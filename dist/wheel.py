#!/usr/bin/env python3
"""Writes a wheel with four entries and no Python code: pip, pipx and uv put the program into their folder of programs."""

import base64
import hashlib
import io
import re
import time
import zipfile

import release

METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: {summary}
License-Expression: {license}
Home-page: {homepage}
Description-Content-Type: text/markdown

The program `patchbay`. Licences of the libraries in it are in the archives of the same release.
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: patchbay\nRoot-Is-Purelib: false\n{tags}"


def main():
    tags = "manylinux_2_17_{machine}.musllinux_1_1_{machine}"
    given = release.arguments(__doc__, name=("patchbay-host", "the name on PyPI"), tags=(tags, "the platforms"))
    name, version = given.name.replace("-", "_"), re.sub(r"-([a-z]+)\.?", r"\1", given.version)
    platforms = given.tags.replace("{machine}", given.machine)
    facts = {"name": given.name, "version": version, "summary": release.SUMMARY, "license": release.LICENSE,
             "homepage": release.HOMEPAGE, "tags": "".join(f"Tag: py3-none-{tag}\n" for tag in platforms.split("."))}
    info = f"{name}-{version}.dist-info"
    entries = {
        f"{name}-{version}.data/scripts/patchbay": (given.binary.read_bytes(), 0o755),
        f"{info}/METADATA": (METADATA.format(**facts).encode(), 0o644),
        f"{info}/WHEEL": (WHEEL.format(**facts).encode(), 0o644),
    }
    record = "".join(f"{path},sha256={digest(data)},{len(data)}\n" for path, (data, _) in entries.items())
    entries[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for path, (data, mode) in entries.items():
            entry = zipfile.ZipInfo(path, time.gmtime(release.epoch())[:6])
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    release.write(given.out / f"{name}-{version}-py3-none-{platforms}.whl", out.getvalue())


def digest(data):
    """Returns a SHA-256 as RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main()

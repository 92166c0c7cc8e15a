"""Helpers that the programs of this folder share. Nothing here depends on the time, the user or the machine of a build."""

import argparse
import gzip
import io
import os
import re
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = "Agent host whose extensions are sandboxed WebAssembly components"
LICENSE = "MIT OR Apache-2.0"
HOMEPAGE = "https://example.com/patchbay"
MAINTAINER = "The Patchbay authors <patchbay@example.com>"
LICENCES = ["LICENSE-APACHE", "LICENSE-MIT"]

# What each kind of package calls a machine.
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
NODE = {"x86_64": "x64", "aarch64": "arm64"}


def arguments(description, **more):
    """Parses BINARY and VERSION, and the options `more`, each with its default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("binary", type=Path, help="a finished program for Linux")
    parser.add_argument("version")
    parser.add_argument("--out", type=Path, default=Path("."), help="the folder to write to")
    parser.add_argument("--extra", type=Path, help="a folder with the completions, the manual page and THIRD-PARTY")
    for name, (default, text) in more.items():
        parser.add_argument(f"--{name}", default=default, help=f"{text} [default: {default}]")
    parsed = parser.parse_args()
    if not re.fullmatch(r"\d+\.\d+\.\d+(-[0-9a-z.]+)?", parsed.version):
        parser.error(f"'{parsed.version}' is not a version such as 0.2.0")
    parsed.machine = machine(parsed.binary)
    parsed.out.mkdir(parents=True, exist_ok=True)
    return parsed


def machine(binary):
    """Returns the machine that a binary is for, as its ELF header says."""
    with open(binary, "rb") as file:
        header = file.read(20)
    name = {62: "x86_64", 183: "aarch64"}.get(int.from_bytes(header[18:20], "little"))
    if header[:5] != b"\x7fELF\x02" or name is None:
        raise SystemExit(f"{binary} is not a program for Linux on x86-64 or aarch64")
    return name


def epoch():
    """Returns the time of every file: SOURCE_DATE_EPOCH, else 1980, where the time of zip files begins."""
    return max(int(os.environ.get("SOURCE_DATE_EPOCH") or 0), 315_532_800)


def extra(arguments):
    """Returns the generated files by name. Without --extra, the binary makes them, so it must run on this machine."""
    if arguments.extra:
        return {path.name: path.read_bytes() for path in sorted(arguments.extra.iterdir())}
    commands = {"patchbay.1": ["man"], "patchbay.bash": ["completions", "bash"], "_patchbay": ["completions", "zsh"],
                "patchbay.fish": ["completions", "fish"]}
    program = arguments.binary.resolve()
    return {name: subprocess.run([program, *words], check=True, capture_output=True).stdout
            for name, words in commands.items()}


def licences():
    """Returns the texts of our own licences by file name."""
    return {name: (ROOT / name).read_bytes() for name in LICENCES}


def gzipped(data):
    """Compresses `data`, without the time and name that gzip would note."""
    return gzip.compress(data, 9, mtime=0)


def tar(entries, prefix=""):
    """Returns a tar file of {path: (bytes or None for a folder, mode)}, sorted. An owner may be a third item."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, (data, mode, *owner) in sorted(entries.items()):
            entry = tarfile.TarInfo(prefix + path)
            entry.type, entry.mode, entry.mtime = tarfile.REGTYPE, mode, epoch()
            entry.uid = entry.gid = owner[0] if owner else 0
            if data is None:
                entry.type = tarfile.DIRTYPE
            entry.size = len(data or b"")
            archive.addfile(entry, io.BytesIO(data or b""))
    return out.getvalue()


def write(path, data):
    """Writes a finished package and prints its path."""
    path.write_bytes(data)
    print(path)

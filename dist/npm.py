#!/usr/bin/env python3
"""Writes two npm packages: one for the platform of the binary, and the one that is installed, which depends on all platforms."""

import json

import release


def main():
    given = release.arguments(__doc__, name=("patchbay-host", "the name of the package that is installed"))
    common = {"version": given.version, "description": release.SUMMARY, "license": release.LICENSE,
              "homepage": release.HOMEPAGE}
    platforms = [f"{given.name}-linux-{node}" for node in release.NODE.values()]
    licences = {path: (data, 0o644) for path, data in release.licences().items()}
    node = release.NODE[given.machine]
    # Without `bin`, or both packages would claim the command.
    platform = {"name": f"{given.name}-linux-{node}", **common, "os": ["linux"], "cpu": [node]}
    more = {name: (data, 0o644) for name, data in release.extra(given).items() if name == "THIRD-PARTY"}
    pack(given.out, platform, licences | more | {"bin/patchbay": (given.binary.read_bytes(), 0o755)})
    starter = (release.ROOT / "dist/npm.js").read_text().replace("@NAME@", given.name)
    main_package = {"name": given.name, **common, "bin": {"patchbay": "patchbay.js"}, "engines": {"node": ">=18"},
                    "optionalDependencies": {name: given.version for name in platforms}}
    pack(given.out, main_package, licences | {"patchbay.js": (starter.encode(), 0o755)})


def pack(out, manifest, entries):
    """Writes NAME-VERSION.tgz, as `npm pack` names it."""
    text = json.dumps(manifest, indent=2) + "\n"
    data = release.tar(entries | {"package.json": (text.encode(), 0o644)}, "package/")
    release.write(out / f"{manifest['name']}-{manifest['version']}.tgz", release.gzipped(data))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes an OCI layout for one or more machines: the program and certificates, without a base image. `skopeo copy --all` pushes it."""

import argparse
import hashlib
import json
import time
from pathlib import Path

import release

TYPES = "application/vnd.oci.image."
USER = 65532


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=Path, nargs="+", help="finished programs for Linux, one for each machine")
    parser.add_argument("version")
    parser.add_argument("--out", type=Path, default=Path("."), help="the folder to write to")
    parser.add_argument("--certificates", type=Path, default=Path("/etc/ssl/certs/ca-certificates.crt"),
                        help="the file of Debian's package ca-certificates [default: %(default)s]")
    parser.add_argument("--below", type=Path, help="a tar file that becomes the lowest layer, such as libraries")
    given = parser.parse_args()
    layout = given.out / f"patchbay-{given.version}-oci"
    (layout / "blobs/sha256").mkdir(parents=True)
    manifests = []
    for binary in given.binary:
        platform = {"architecture": release.DEBIAN[release.machine(binary)], "os": "linux"}
        manifest = image(layout, binary, given, platform)
        manifests.append(manifest | {"platform": platform})
    index = {"schemaVersion": 2, "mediaType": TYPES + "index.v1+json", "manifests": manifests}
    name = {"annotations": {"org.opencontainers.image.ref.name": given.version}}
    top = {"schemaVersion": 2, "manifests": [add(layout, index, "index.v1+json") | name]}
    (layout / "index.json").write_text(json.dumps(top))
    (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    print(layout)


def image(layout, binary, given, platform):
    """Adds the image of one machine, and returns the descriptor of its manifest."""
    entries = {
        "etc/ssl/certs/ca-certificates.crt": (given.certificates.read_bytes(), 0o644),
        "home": (None, 0o700, USER),
        "tmp": (None, 0o1777),
        "usr/bin/patchbay": (binary.read_bytes(), 0o755),
    }
    folders = {str(parent) for path in entries for parent in Path(path).parents if str(parent) != "."}
    layers = [release.tar({folder: (None, 0o755) for folder in folders} | entries)]
    if given.below:
        layers.insert(0, given.below.read_bytes())
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(release.epoch()))
    config = {
        **platform,
        "created": created,
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/bin", "HOME=/home", "PATCHBAY_HOME=/home"],
            "Entrypoint": ["/usr/bin/patchbay"],
            "Labels": {"org.opencontainers.image.version": given.version,
                       "org.opencontainers.image.licenses": release.LICENSE},
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]},
        "history": [{"created": created, "created_by": "patchbay dist/image.py"} for _ in layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": TYPES + "manifest.v1+json",
        "config": add(layout, config, "config.v1+json"),
        "layers": [add(layout, release.gzipped(layer), "layer.v1.tar+gzip") for layer in layers],
    }
    return add(layout, manifest, "manifest.v1+json")


def add(layout, content, kind):
    """Stores bytes or JSON under its digest, and returns its descriptor."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    digest = hashlib.sha256(data).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(data)
    return {"mediaType": TYPES + kind, "digest": f"sha256:{digest}", "size": len(data)}


if __name__ == "__main__":
    main()

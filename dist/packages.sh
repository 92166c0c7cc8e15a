#!/bin/sh
# Makes all packages of finished programs, each for another machine, and their checksums in the folder OUT. `build.sh` calls it.
#
# usage: packages.sh VERSION OUT EXTRA PROGRAM...
# EXTRA has the completions and the manual page. SOURCE_DATE_EPOCH is the time of all files. SIGN=KEY signs the checksums.
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
version=$1 out=$2 extra=$3
shift 3
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$extra"/* "$work"
for program; do
  machine=$(PYTHONPATH=$root/dist python3 -c 'import release, sys; print(release.machine(sys.argv[1]))' "$program")
  python3 "$root/dist/crates.py" "$machine-unknown-linux-musl" "$work"
  mv "$work/sbom.cdx.json" "$out/patchbay-$version-linux-$machine.cdx.json"
  for kind in archive deb wheel npm; do
    python3 "$root/dist/$kind.py" "$program" "$version" --out "$out" --extra "$work"
  done
done
python3 "$root/dist/image.py" "$@" "$version" --out "$out"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=a+rX,u+w,go-w \
  -C "$out/patchbay-$version-oci" -cf "$out/patchbay-$version-oci.tar" blobs index.json oci-layout
rm -rf "$out/patchbay-$version-oci"
(cd "$out" && sha256sum patchbay*.tar.gz) >"$work/archives"
# Recipes are for both machines.
if test $# -eq 2; then
  python3 "$root/dist/recipes.py" "$work/archives" "$version" --out "$out"
fi
(cd "$out" && LC_ALL=C sha256sum -- *) >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" "$out"
if test -n "${SIGN-}"; then
  ssh-keygen -Y sign -q -f "$SIGN" -n patchbay-release "$out/SHA256SUMS"
fi

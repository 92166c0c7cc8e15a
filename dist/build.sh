#!/bin/sh
# Builds the checked-out commit as static programs, and makes all packages of them in target/dist/VERSION. `make dist` calls it.
#
# usage: build.sh MACHINE...     such as: build.sh x86_64 aarch64
# SIGN=KEY signs the checksums with a private SSH key. TARGET_DIR is another folder to build in.
set -eu

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
auditable=0.7.7
tools=$root/target/tools
target_dir=${TARGET_DIR-$root/target}
out=$target_dir/dist/$version

if test -n "$(git status --porcelain)"; then
  echo "the release would contain changes that no commit has; commit them, or remove them:" >&2
  git status --short >&2
  exit 1
fi
# One of the programs prints the completions and the manual page: the program for this machine, else one in qemu.
printer=$(uname -m) emulator=
case " $* " in
  *" $printer "*) ;;
  *)
    printer=$1 emulator=qemu-$1-static
    command -v "$emulator" >/dev/null || {
      echo "the program prints its completions: add $(uname -m) to TARGETS, or install $emulator" >&2
      exit 1
    } ;;
esac

plugins/wasm-cc --zig version >/dev/null
zig=$(echo "$tools"/zig-*/lib/python3*/site-packages/ziglang/zig)
zigbuild=$(sed -n 's/^cargo-zigbuild==\([0-9.]*\).*/\1/p' dist/requirements.txt)
if ! test -e "$tools/cargo-zigbuild-$zigbuild"; then
  echo "== installing cargo-zigbuild $zigbuild"
  new=$(mktemp -d "$tools/cargo-zigbuild.XXXXXX")
  python3 -m venv "$new"
  "$new/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --requirement dist/requirements.txt || { rm -rf "$new"; exit 1; }
  mv "$new" "$tools/cargo-zigbuild-$zigbuild"
fi
if ! test -e "$tools/cargo-auditable-$auditable"; then
  echo "== installing cargo-auditable $auditable"
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    cargo install --quiet --locked --root "$tools/cargo-auditable-$auditable" cargo-auditable --version "=$auditable"
fi
PATH=$tools/cargo-zigbuild-$zigbuild/bin:$tools/cargo-auditable-$auditable/bin:$PATH
export PATH CARGO_ZIGBUILD_ZIG_PATH="$zig" ZIG_GLOBAL_CACHE_DIR="${zig%/lib/*}/cache" ZIG_LOCAL_CACHE_DIR="${zig%/lib/*}/cache"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
CARGO_HOME=${CARGO_HOME-$HOME/.cargo}
# Messages of panics contain paths of sources.
RUSTFLAGS="--remap-path-prefix=$root=/patchbay --remap-path-prefix=$CARGO_HOME=/cargo"
export SOURCE_DATE_EPOCH RUSTFLAGS CARGO_INCREMENTAL=0

for machine; do
  target=$machine-unknown-linux-musl
  rustc --print target-libdir --target "$target" | xargs -r test -d || rustup target add "$target"
  echo "== building $target"
  cargo auditable zigbuild --locked --profile dist --target "$target" --target-dir "$target_dir" --workspace --bin patchbay
done

program() { echo "$target_dir/$1-unknown-linux-musl/dist/patchbay"; }
printed() { $emulator "$(program "$printer")" "$@"; }
commit=$(git rev-parse HEAD | cut -c 1-12)
said=$(printed --version)
case $said in
  "patchbay $version ($commit, "*) ;;
  *) echo "the program says '$said', which is not version $version of commit $commit" >&2; exit 1 ;;
esac

echo "== making packages"
extra=$(mktemp -d)
trap 'rm -rf "$extra"' EXIT
printed man >"$extra/patchbay.1"
printed completions bash >"$extra/patchbay.bash"
printed completions zsh >"$extra/_patchbay"
printed completions fish >"$extra/patchbay.fish"
for machine; do
  set -- "$@" "$(program "$machine")"
  shift
done
dist/packages.sh "$version" "$out" "$extra" "$@"
ls -l "$out"

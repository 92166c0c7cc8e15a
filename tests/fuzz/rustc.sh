#!/bin/sh
# Cargo calls this as `rustc.sh RUSTC ARGUMENT...` (RUSTC_WRAPPER). Only what reads foreign bytes is watched by the fuzzer:
# the engine has more branches than all else together, and here it is linked, but never run.
rustc=$1
shift
case " $* " in
  *" --crate-name patchbay_"* | *" --crate-name granit_parser "* | *" --crate-name idna "* | \
  *" --crate-name serde_saphyr "* | *" --crate-name url "* | *" --crate-name wasmparser "* | \
  *" --crate-name "*" targets/"*) ;;
  *)
    for argument; do
      shift
      case $argument in
        -Cpasses=sancov-module | -Cllvm-args=-sanitizer-coverage-*) ;;
        *) set -- "$@" "$argument" ;;
      esac
    done
    ;;
esac
exec "$rustc" "$@"

#!/usr/bin/env python3
"""Writes a Homebrew formula and an AUR recipe for finished archives: recipes.py SHA256SUMS VERSION --address URL"""

import argparse
from pathlib import Path

import release

FORMULA = """\
class Patchbay < Formula
  desc "{summary}"
  homepage "{homepage}"
  version "{version}"
  license any_of: ["MIT", "Apache-2.0"]
  depends_on :linux

  on_intel do
    url "{address}/patchbay-{version}-linux-x86_64.tar.gz"
    sha256 "{x86_64}"
  end
  on_arm do
    url "{address}/patchbay-{version}-linux-aarch64.tar.gz"
    sha256 "{aarch64}"
  end

  def install
    bin.install "patchbay"
    man1.install "man/man1/patchbay.1"
    bash_completion.install "completions/patchbay.bash" => "patchbay"
    zsh_completion.install "completions/_patchbay"
    fish_completion.install "completions/patchbay.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/patchbay --version")
  end
end
"""
PKGBUILD = """\
# Maintainer: {maintainer}
pkgname=patchbay-bin
pkgver={arch_version}
pkgrel=1
pkgdesc="{summary}"
arch=(x86_64 aarch64)
url="{homepage}"
license=(MIT Apache-2.0)
optdepends=('ca-certificates: requests to providers')
provides=(patchbay)
conflicts=(patchbay)
source_x86_64=("{address}/patchbay-{version}-linux-x86_64.tar.gz")
source_aarch64=("{address}/patchbay-{version}-linux-aarch64.tar.gz")
sha256sums_x86_64=({x86_64})
sha256sums_aarch64=({aarch64})

package() {{
  cd "patchbay-{version}-linux-$CARCH"
  install -Dm755 patchbay "$pkgdir/usr/bin/patchbay"
  install -Dm644 man/man1/patchbay.1 "$pkgdir/usr/share/man/man1/patchbay.1"
  install -Dm644 completions/patchbay.bash "$pkgdir/usr/share/bash-completion/completions/patchbay"
  install -Dm644 completions/_patchbay "$pkgdir/usr/share/zsh/site-functions/_patchbay"
  install -Dm644 completions/patchbay.fish "$pkgdir/usr/share/fish/vendor_completions.d/patchbay.fish"
  install -Dm644 LICENSE-MIT LICENSE-APACHE THIRD-PARTY -t "$pkgdir/usr/share/licenses/$pkgname"
}}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sums", type=Path, help="SHA256SUMS of the release")
    parser.add_argument("version")
    parser.add_argument("--address", default=f"{release.HOMEPAGE}/{{version}}", help="where the archives will be")
    parser.add_argument("--out", type=Path, default=Path("."), help="the folder to write to")
    given = parser.parse_args()
    sums = dict(reversed(line.split(None, 1)) for line in given.sums.read_text().splitlines())
    facts = {"version": given.version, "arch_version": given.version.replace("-", "_"), "summary": release.SUMMARY,
             "homepage": release.HOMEPAGE, "maintainer": release.MAINTAINER,
             "address": given.address.format(version=given.version)}
    for machine in release.DEBIAN:
        archive = f"patchbay-{given.version}-linux-{machine}.tar.gz"
        if archive not in sums:
            parser.error(f"{given.sums} does not list {archive}; both archives are needed")
        facts[machine] = sums[archive]
    for name, text in [("patchbay.rb", FORMULA), ("PKGBUILD", PKGBUILD)]:
        release.write(given.out / name, text.format(**facts).encode())


if __name__ == "__main__":
    main()

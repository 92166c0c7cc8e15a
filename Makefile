# The two main commands are `make run` and `make test`. Each prints its steps and repeats no finished work.

CARGO ?= cargo
TARGET = wasm32-unknown-unknown
PATCHBAY = target/debug/patchbay

.PHONY: help run check test crash check-targets test-interop test-acp test-mcp test-serve test-serve-all test-authors test-authors-all errors-for-authors peers test-terminal screens build plugins guests format lint deny advisories fuzz reproduce bench docs release install version dist dist-again test-dist test-dist-all test-clients test-packages-all target

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

run: build ## Build everything, and open a terminal
	@$(PATCHBAY)

# Most tests of the binary wait for processes, so each core can run several.
TEST_THREADS = $$((3 * $$(getconf _NPROCESSORS_ONLN)))

check: format | plugins/dist ## While you work: formatting, clippy, and the unit tests of the crates that changed and of those that depend on them
	@echo "== clippy"
	@$(CARGO) clippy --quiet --workspace --all-targets -- -D warnings
	@echo "== unit tests of the rebuilt crates"
	@rm -f target/queue
	@$(CARGO) --config 'target."cfg(all())".runner = "$(CURDIR)/tests/run-if-new"' test --quiet --workspace --lib --bins
	@RUST_TEST_THREADS=$(TEST_THREADS) tests/run-if-new

test: build guests ## Run every test
	@echo "== testing the bundled plugins"
	@$(CARGO) test --quiet --manifest-path plugins/Cargo.toml
	@echo "== testing the host"
	@RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace

test-interop: build peers ## Check against what others wrote: official SDKs, and a server that speaks as providers do
	@echo "== checking against what others wrote"
	@$(MAKE) --no-print-directory -C tests/interop

test-mcp: build peers ## Check MCP, both ways, against clients and servers made with the official SDKs
	@echo "== checking MCP against what others wrote"
	@$(MAKE) --no-print-directory -C tests/interop mcp

test-acp: build peers ## Drive `patchbay acp` with clients of others: acpx, and the official SDKs for TypeScript and Python
	@echo "== checking patchbay acp against clients of others"
	@$(MAKE) --no-print-directory -C tests/interop acp

test-serve: build peers ## Drive `patchbay serve` with WebSockets of others' SDKs and the bridge, and run the lines of docs/serve.md
	@echo "== checking patchbay serve against clients of others"
	@$(MAKE) --no-print-directory -C tests/interop serve

SERVE_TOOLS = chromium caddy

test-serve-all: test-serve ## The same, also the page in Chromium, behind Caddy, with Litestream, cut and killed; installs Debian packages
	@for tool in $(SERVE_TOOLS); do command -v $$tool >/dev/null || missing=1; done; \
	  test -z "$$missing" || { echo "== installing $(SERVE_TOOLS)"; apt-get update -qq && apt-get install -y -qq --no-install-recommends $(SERVE_TOOLS) >/dev/null; }
	@$(MAKE) --no-print-directory -C tests/interop serve-all
	@echo "== cutting connections, and killing the server"
	@SERVE_CUTS=2000 SERVE_SESSIONS=50 SERVE_KILLS=20 $(CARGO) test --workspace --test e2e -- serve_cuts --nocapture

test-authors: build ## Write, build, call, test and add plugins in Rust, JavaScript, Python and C, as a new author would
	@echo "== being an author"
	@$(CARGO) test --workspace --test authors -- --nocapture

test-authors-all: build ## The same, also in TypeScript, Zig and Go, with providers and every usual mistake; AUTHOR_SKIP=go,zig leaves some out
	@echo "== being an author, in every language"
	@AUTHOR_TESTS=all AUTHOR_MISTAKES=all $(CARGO) test --workspace --test authors -- --nocapture

errors-for-authors: build ## Make the usual mistakes of authors, and write what is shown for each into docs/errors-for-authors.md
	@echo "== making mistakes"
	@AUTHOR_MISTAKES=all UPDATE_DOCS=1 $(CARGO) test --workspace --test authors -- mistakes

# Before the four targets above, which may run at the same time (`make -j`).
peers:
	@$(MAKE) --no-print-directory -C tests/interop tools

build: plugins ## Build the host, with the bundled plugins in it
	@echo "== building the host"
	@$(CARGO) build --workspace --bin patchbay

plugins: target ## Build the bundled plugins into plugins/dist
	@plugins/wasm-cc --setup
	@echo "== building the bundled plugins (the first time takes some minutes: it compiles the engine)"
	@$(CARGO) build --workspace --bin patchbay-bundle
	@target/debug/patchbay-bundle plugins plugins/dist

plugins/dist:
	@$(MAKE) --no-print-directory plugins

guests: ## Build guests in other languages, for tests and benchmarks, into tests/guests/dist
	@echo "== building guests in other languages (the first time takes some minutes: it installs their compilers)"
	@$(MAKE) --no-print-directory -C tests/guests CARGO=$(CARGO)

target:
	@rustc --print target-libdir --target $(TARGET) 2>/dev/null | xargs -r test -d \
	  || { echo "== adding the Rust target $(TARGET)"; rustup target add $(TARGET); }

format: ## Check the formatting
	@echo "== formatting"
	@$(CARGO) fmt --all --check
	@$(CARGO) fmt --all --check --manifest-path plugins/Cargo.toml
	@$(CARGO) fmt --check --manifest-path tests/fuzz/Cargo.toml

lint: format deny plugins ## Formatting, dependencies, clippy with warnings as errors, documentation
	@echo "== clippy"
	@$(CARGO) clippy --workspace --all-targets -- -D warnings
	@$(CARGO) clippy --manifest-path plugins/Cargo.toml --all-targets -- -D warnings
	@echo "== documentation"
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

DENY_VERSION = 0.20.2
DENY = target/tools/cargo-deny-$(DENY_VERSION)/bin/cargo-deny

deny: $(DENY) ## Check licences, origins and bans of all dependencies against deny.toml
	@echo "== dependencies"
	@$(DENY) check licenses bans sources
	@$(DENY) --manifest-path plugins/Cargo.toml --config deny.toml -L error check -A license-not-encountered licenses bans sources

advisories: $(DENY) ## Fetch the list of known faults, and look for our dependencies in it
	@$(DENY) check advisories
	@$(DENY) --manifest-path plugins/Cargo.toml --config deny.toml check advisories

# It runs for seconds, so that it is built for a short compile time (about a minute).
$(DENY):
	@echo "== installing cargo-deny $(DENY_VERSION)"
	@CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	  $(CARGO) install --quiet --locked --root target/tools/cargo-deny-$(DENY_VERSION) cargo-deny --version =$(DENY_VERSION)

FUZZ_VERSION = 0.13.2
FUZZ = target/tools/cargo-fuzz-$(FUZZ_VERSION)/bin/cargo-fuzz
FUZZ_SECONDS ?= 60
# 0: other inputs in each run
FUZZ_SEED ?= 0
FUZZ_TARGETS ?= $(shell $(FUZZ) list --fuzz-dir tests/fuzz)
# Without a sanitizer: sanitizers need a nightly compiler, and find errors that code without `unsafe` cannot have.
FUZZ_BUILD = --dev --sanitizer none --fuzz-dir tests/fuzz
FUZZ_RUN = RUSTC_WRAPPER=$(CURDIR)/tests/fuzz/rustc.sh $(FUZZ)
# An input takes milliseconds and a few megabytes; an input that takes seconds or a gigabyte is a finding.
FUZZ_LIMITS = -timeout=10 -rss_limit_mb=1024

fuzz: $(FUZZ) tests/fuzz/Cargo.lock ## Fuzz each of FUZZ_TARGETS for FUZZ_SECONDS (-j2: two at a time)
	@echo "== building the fuzz targets"
	@$(FUZZ_RUN) build $(FUZZ_BUILD)
	@test -n "$(FUZZ_TARGETS)" || { echo "tests/fuzz names no target" >&2; exit 1; }
	@$(MAKE) --no-print-directory $(FUZZ_TARGETS:%=fuzz-%)

fuzz-%:
	@echo "== fuzzing $* for $(FUZZ_SECONDS) s"; mkdir -p tests/fuzz/corpus/$*
	@$(FUZZ_RUN) run $(FUZZ_BUILD) $* tests/fuzz/corpus/$* tests/fuzz/seeds/$* -- $(FUZZ_LIMITS) \
	  -seed=$(FUZZ_SEED) -max_total_time=$(FUZZ_SECONDS) -dict=tests/fuzz/dictionaries/$* -verbosity=0 -print_final_stats=1 \
	  || { echo "== $* failed; again: make reproduce FUZZ_TARGET=$* INPUT=FILE, with the file named above"; exit 1; }

reproduce: $(FUZZ) tests/fuzz/Cargo.lock ## Run the fuzz target FUZZ_TARGET once, with the bytes of the file INPUT
	@$(FUZZ_RUN) run $(FUZZ_BUILD) $(FUZZ_TARGET) $(INPUT) -- $(FUZZ_LIMITS)

# The fuzzed versions are those that are shipped.
tests/fuzz/Cargo.lock: Cargo.lock
	@cp $< $@

$(FUZZ):
	@echo "== installing cargo-fuzz $(FUZZ_VERSION)"
	@CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	  $(CARGO) install --quiet --locked --root target/tools/cargo-fuzz-$(FUZZ_VERSION) cargo-fuzz --version =$(FUZZ_VERSION)

# Panic messages contain source paths. The paths of this machine are replaced.
CARGO_HOME ?= $(HOME)/.cargo
RELEASE = RUSTFLAGS="--remap-path-prefix=$(CURDIR)=/patchbay --remap-path-prefix=$(CARGO_HOME)=/cargo" $(CARGO) build --release --workspace

bench: plugins guests ## Measure, and write docs/benchmarks.md
	@echo "== measuring"
	@$(RELEASE) --bin patchbay --bin patchbay-bench
	@target/release/patchbay-bench

test-terminal: build ## Check what the terminal shows at all its moments, in windows of 40, 80 and 120 columns
	@echo "== checking the screens of the terminal"
	@TERMINAL_TESTS=all $(CARGO) test --workspace --test terminal -- --nocapture

screens: build ## Record the screens of the terminal again, and write docs/terminal.md with them
	@TERMINAL_TESTS=all INSTA_UPDATE=always $(CARGO) test --workspace --test terminal -- moments --nocapture
	@UPDATE_DOCS=1 $(CARGO) test --workspace --test terminal -- document --quiet

crash: build ## Kill the process two hundred times during calls of tools, and two hundred times while agents work
	@PATCHBAY_KILLS=200 $(CARGO) test --workspace --test e2e -- crashes:: --nocapture

docs: build ## Write the generated documents again
	@UPDATE_DOCS=1 $(CARGO) test --workspace --test architecture --bin patchbay

# Systems that nothing runs on here. Only the compiler's front end is needed for them, with C sources by zig.
APPLE = aarch64-apple-darwin
APPLE_CC = $(CURDIR)/tests/targets/apple-cc
WINDOWS = x86_64-pc-windows-gnu

check-targets: ## Compile for macOS as far as that needs no Mac, and check that Windows is refused
	@for target in $(APPLE) $(WINDOWS); do \
	  rustc --print target-libdir --target $$target 2>/dev/null | xargs -r test -d \
	    || { echo "== adding the Rust target $$target"; rustup target add $$target; }; \
	done
	@plugins/wasm-cc --zig version >/dev/null
	@for target in $(APPLE); do \
	  echo "== checking $$target"; \
	  env SDKROOT=/ CC_$$(echo $$target | tr - _)=$(APPLE_CC) $(CARGO) check --workspace --tests --target $$target || exit 1; \
	done
	@echo "== checking that Windows is refused"
	@$(CARGO) check --quiet --package patchbay-core --target $(WINDOWS) 2>&1 | grep -q "Patchbay does not run on Windows.*WSL" \
	  || { echo "the build for Windows is not refused with a line that names WSL" >&2; exit 1; }

release: plugins ## One binary that needs nothing beside it: target/patchbay
	@echo "== building the release binary"
	@$(RELEASE) --bin patchbay
	@strip -o target/patchbay target/release/patchbay
	@ls -l target/patchbay

TARGETS ?= x86_64 aarch64

dist: plugins ## Static programs for TARGETS and all packages, in target/dist/VERSION; SIGN=KEY signs them with an SSH key
	@dist/build.sh $(TARGETS)

dist-again: VERSION = $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml | head -n 1)
dist-again: ## Build what `make dist` built once more, from a clone in another folder, and compare all files
	@rm -rf target/again && mkdir -p target/again && git clone --quiet . target/again/clone
	@mkdir -p target/again/clone/target && ln -s "$(CURDIR)/target/tools" target/again/clone/target/tools
	@$(MAKE) --no-print-directory -C target/again/clone dist TARGETS="$(TARGETS)"
	@diff -r --exclude='*.sig' target/dist/$(VERSION) target/again/clone/target/dist/$(VERSION) && echo "== every file is the same"

test-dist: build ## Install the wheel, the npm and the Debian package of the built binary, run it in each, and remove it
	@echo "== installing packages"
	@tests/dist/run.py $(PATCHBAY) release archive deb wheel npm

DIST_TOOLS = mmdebstrap skopeo umoci docker-registry makepkg pacman bsdtar ruby
DIST_PACKAGES = $(patsubst pacman,pacman-package-manager,$(DIST_TOOLS:bsdtar=libarchive-tools))

test-dist-all: build ## The same, also in a Debian of its own and as an image from a registry; needs root, installs Debian packages
	@for tool in $(DIST_TOOLS); do command -v $$tool >/dev/null || missing=1; done; \
	  test -z "$$missing" || { echo "== installing $(DIST_PACKAGES)"; apt-get update -qq && apt-get install -y -qq $(DIST_PACKAGES) >/dev/null; }
	@echo "== installing packages"
	@tests/dist/run.py $(PATCHBAY) release archive deb wheel npm program names debian image recipes

CLIENTS = target/tools/clients

test-clients: build $(CLIENTS)/.installed ## Install a package of ours in Codex, Copilot CLI and Claude Code, without a network; 1 GB of npm packages
	@echo "== installing a package in clients of others"
	@tests/clients/run.py $(PATCHBAY) $(CLIENTS)/node_modules/.bin plugins/dist/calc.wasm

$(CLIENTS)/.installed: tests/clients/package.json tests/clients/package-lock.json
	@echo "== installing the clients"
	@rm -rf $(@D) && mkdir -p $(@D) && cp $^ $(@D)
	@cd $(@D) && npm install --loglevel=error --no-fund --no-audit >/dev/null
	@touch $@

test-packages-all: build ## Packages with Debian's registry, skopeo, oras, and https by Python; installs Debian packages
	@for tool in docker-registry skopeo openssl; do command -v $$tool >/dev/null || missing=1; done; \
	  test -z "$$missing" || { echo "== installing docker-registry, skopeo and openssl"; apt-get update -qq && apt-get install -y -qq docker-registry skopeo openssl >/dev/null; }
	@echo "== checking packages against what others wrote"
	@tests/packages/run.py $(PATCHBAY)

version: ## Set the version to V in all manifests, and release what CHANGELOG.md has under "Unreleased"
	@python3 dist/version.py "$(V)"

PREFIX ?= $(HOME)/.local

install: release ## Put the release binary into PREFIX/bin, by default ~/.local/bin
	@install -d $(PREFIX)/bin
	@install -m 755 target/patchbay $(PREFIX)/bin/patchbay
	@echo "installed $(PREFIX)/bin/patchbay"

//! Runs the C compiler that is installed for plugins in C.

use std::{
    path::Path,
    process::{Command, Stdio},
};

/// Options of the compiler. The linked module does not depend on WASI, although that is the target. Without an explicit stack size,
/// the memory would start at 16 MiB.
const OPTIONS: &[&str] = &[
    "--target=wasm32-wasi",
    "-std=c17",
    "-Wall",
    "-Wextra",
    // Certain mistakes stop the build; other warnings don't.
    "-Werror=format",
    "-Werror=implicit-function-declaration",
    "-Werror=return-stack-address",
    "-Werror=return-type",
    "-Werror=unused-result",
    "-Os",
    // Keeps `assert` working, because the compiler defines NDEBUG at this optimization level.
    "-UNDEBUG",
    // The line tables are stripped from the module afterwards, but kept to locate traps.
    "-gline-tables-only",
    // Address 0 and the memory after an array are ordinary memory. Without these checks, both could be read and written.
    "-fsanitize=null,bounds",
    "-fsanitize-trap=null,bounds",
    "-fdebug-compilation-dir=.",
    "-mexec-model=reactor",
    "-Wl,-z,stack-size=65536",
];

/// Creates a command for the C compiler in a toolchain's folder, with the usual options.
pub(crate) fn compiler(tools: &Path) -> Command {
    let cache = tools.join("cache");
    let mut zig = Command::new(tools.join("bin/python"));
    zig.stdin(Stdio::null())
        .stdout(Stdio::null())
        .env("ZIG_GLOBAL_CACHE_DIR", &cache)
        .env("ZIG_LOCAL_CACHE_DIR", &cache)
        .args(["-m", "ziglang", "cc"])
        .args(OPTIONS);
    zig
}

/// Creates a command that compiles an empty program. The compiler's first run also compiles the libc, which takes seconds. Running
/// this at installation moves that cost out of the first build.
pub(crate) fn trial(tools: &Path) -> Command {
    let mut zig = compiler(tools);
    zig.current_dir(tools).args(["-x", "c", "/dev/null", "-o", "trial.wasm"]);
    zig
}

//! The command of the C compiler that is installed for plugins in C.

use std::{
    path::Path,
    process::{Command, Stdio},
};

/// Options of the compiler. Of WASI nothing is left when the module is linked; without a stack size of its own
/// the memory would begin at 16 MiB.
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
    // `assert` works: at this level the compiler defines NDEBUG.
    "-UNDEBUG",
    // Stripped afterwards, and kept for the places of traps.
    "-gline-tables-only",
    // Address 0 is ordinary memory, and so is what follows an array: without these checks both would be read and written.
    "-fsanitize=null,bounds",
    "-fsanitize-trap=null,bounds",
    "-fdebug-compilation-dir=.",
    "-mexec-model=reactor",
    "-Wl,-z,stack-size=65536",
];

/// Creates the command of the C compiler in a toolchain's folder, with its options.
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

/// Creates the command that compiles an empty program. The compiler's first run also compiles the libc, which takes
/// seconds. Running this at installation moves that cost out of the first build.
pub(crate) fn trial(tools: &Path) -> Command {
    let mut zig = compiler(tools);
    zig.current_dir(tools).args(["-x", "c", "/dev/null", "-o", "trial.wasm"]);
    zig
}

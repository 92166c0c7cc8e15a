//! Recognizes the source files of a skill's component. They are not part of the skill: loading ignores them in a folder with a
//! component, and `plugin build` does not embed them.

/// Top-level names in a skill's folder that count as sources of its component: files and outputs of compilers and package managers,
/// and the README, because it is for people who change the sources. SKILL.md is for everyone else.
const SOURCES: &[&str] = &[
    "CMakeLists.txt",
    "Cargo.lock",
    "Cargo.toml",
    "Makefile",
    "README.md",
    "benches",
    "build",
    "build.zig",
    "build.zig.zon",
    "clippy.toml",
    "compile_flags.txt",
    "dist",
    "fixtures",
    "go.mod",
    "go.sum",
    "jsconfig.json",
    "package-lock.json",
    "package.json",
    "pnpm-lock.yaml",
    "pyproject.toml",
    "requirements.txt",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "sdk",
    "src",
    "target",
    "tests",
    "tsconfig.json",
    "uv.lock",
    "vendor",
    "venv",
    "wit",
    "yarn.lock",
];

/// Extensions of source files at the top level of a skill's folder. Scripts that belong to the skill can be in a folder such as
/// `scripts`.
const SOURCE_EXTENSIONS: &[&str] =
    &["a", "c", "cc", "cjs", "cpp", "go", "h", "hpp", "js", "mjs", "o", "py", "rs", "ts", "wat", "wit", "zig"];

/// Returns whether a file or folder with this name directly in a skill's folder belongs to the sources of its component.
pub fn is_source(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    SOURCES.contains(&name) || extension.is_some_and(|extension| SOURCE_EXTENSIONS.contains(&extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_known_by_name_or_extension() {
        for name in [
            "Cargo.toml",
            "README.md",
            "src",
            "target",
            "sdk",
            "wit",
            "fixtures",
            "skill.py",
            "json.h",
            "build.zig",
            "x.zig",
        ] {
            assert!(is_source(name), "{name}");
        }
        for name in
            ["SKILL.md", "LICENSE", "readme-first.md", "references", "scripts", "greet.wasm", "data.json", "py", "srcs"]
        {
            assert!(!is_source(name), "{name}");
        }
    }
}

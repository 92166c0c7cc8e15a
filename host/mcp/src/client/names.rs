//! The names under which models call the tools of servers: `mcp__SERVER__TOOL`.

use patchbay_core::{Digest, Name};

/// Number of hash digits at the end of a shortened name.
const HASH: usize = 8;

/// Returns the prefix that the names of all tools of `server` share, without the trailing `__`.
pub fn group(server: &str) -> String {
    format!("mcp__{}", plain(server))
}

/// Returns the full name of the tool `tool` of `server`: characters that model APIs do not accept become `_`, and a name of
/// more than 64 characters is cut and ends in 8 characters of its hash. Two tools can end up with the same name.
pub fn full_name(server: &str, tool: &str) -> String {
    let name = format!("{}__{}", group(server), plain(tool));
    if name.len() <= Name::MAX_LEN {
        return name;
    }
    let hash = Digest::of(format!("{server}\0{tool}").as_bytes()).to_hex();
    format!("{}{}", &name[..Name::MAX_LEN - HASH], &hash[..HASH])
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_accepted_characters_and_length() {
        assert_eq!(full_name("github", "create_issue"), "mcp__github__create_issue");
        assert_eq!(full_name("My Server", "a.b/c ü"), "mcp__My_Server__a_b_c__");
        let long = |end: &str| full_name("files", &format!("{}{end}", "x".repeat(100)));
        let name = long("");
        assert_eq!(name.len(), 64);
        assert!(name.starts_with("mcp__files__xxx") && name[56..].bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(name, long("y"), "names that differ only in what was cut");
        assert_eq!(full_name("files", &"x".repeat(52)).len(), 64);
        assert!(full_name("files", &"x".repeat(52)).ends_with("xx"), "a name of 64 characters is not cut");
    }
}

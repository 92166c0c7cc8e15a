//! Any text as an `mcp.json`: each entry is a server or a problem, and a server's command, folder and address never lead anywhere
//! else.

#![no_main]

use libfuzzer_sys::fuzz_target;
use patchbay_core::text;
use patchbay_skill::agent_plugin::{ServerTransport, SpecVersion, parse_servers};

fuzz_target!(|data: &[u8]| {
    for spec in [SpecVersion::V1_0, SpecVersion::V1_1] {
        let (servers, problems) = match parse_servers(data, spec) {
            Ok(read) => read,
            Err(problem) => (Vec::new(), vec![problem]),
        };
        assert!(servers.len() <= 32);
        for problem in problems {
            assert_eq!(text::clean_line(&problem.message), problem.message);
        }
        for server in servers {
            assert_eq!(text::clean_line(&server.name), server.name);
            match server.transport {
                ServerTransport::Stdio { command, env, cwd, .. } => {
                    assert!(command.starts_with("./") || !command.contains(['/', '\\', ' ']));
                    assert!(stays_inside(&command));
                    assert!(cwd.is_none_or(|cwd| stays_inside(&cwd)));
                    assert!(!env.contains_key("PLUGIN_ROOT") && !env.contains_key("PLUGIN_DATA"));
                }
                ServerTransport::StreamableHttp { url, headers } => {
                    assert!(
                        matches!(url.scheme(), "http" | "https")
                            && url.username().is_empty()
                            && url.fragment().is_none()
                    );
                    assert!(headers.values().all(|value| !value.contains(['\r', '\n'])));
                }
            }
        }
    }
});

/// Returns whether no prefix of the path leaves the folder in which the path begins.
fn stays_inside(path: &str) -> bool {
    let depth = |depth: Option<i32>, name: &str| {
        depth.and_then(|depth| match name {
            ".." => (depth > 0).then_some(depth - 1),
            "" | "." | "${PLUGIN_ROOT}" | "${PLUGIN_DATA}" => Some(depth),
            _ => Some(depth + 1),
        })
    };
    !path.starts_with('/') && path.split('/').fold(Some(0), depth).is_some()
}

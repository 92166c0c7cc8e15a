//! The MCP servers that a client names for a session. `methods` passes them to the session.

use patchbay_session::{ClientAddress, ClientServer};

use crate::params::{Bounded, NamedServer, NamedValue};
use patchbay_jsonrpc::RpcError;

/// Length limit of a server's name, in bytes.
const NAME: usize = 128;

/// The servers that a client names, without those that it may not use.
pub(super) struct UsableServers {
    pub(super) used: Vec<ClientServer>,
    /// A line for the user about each server that is left out.
    pub(super) left_out: Vec<String>,
}

/// Returns the servers of a client.
///
/// # Errors
/// A server is invalid. The error does not contain its values, which can be secrets.
pub(super) fn servers(named: Option<Bounded<NamedServer, 64>>) -> Result<Vec<ClientServer>, RpcError> {
    named.into_iter().flat_map(|Bounded(servers)| servers).map(server).collect()
}

/// Leaves out servers that a remote client may not use: programs, which would run on this machine, and addresses that are not
/// public.
pub(super) fn for_remote(servers: Vec<ClientServer>) -> UsableServers {
    let (used, rest): (Vec<_>, Vec<_>) = servers.into_iter().partition(|server| server.address.is_public());
    let line = |ClientServer { name, address }: ClientServer| {
        let why = match address {
            ClientAddress::Process { .. } => "its command would run on the server's machine",
            ClientAddress::Http { .. } => "its url is not a public https address",
        };
        let name = patchbay_core::text::excerpt(&name, 80);
        format!("The MCP server '{name}' is left out: {why}. Add it to config.toml there to use it.")
    };
    UsableServers { used, left_out: rest.into_iter().map(line).collect() }
}

fn server(named: NamedServer) -> Result<ClientServer, RpcError> {
    let NamedServer { name, kind, command, args, env, url, headers } = named;
    let shown = patchbay_core::text::excerpt(&name, 80);
    let invalid = |problem: &str| RpcError::invalid_params(format_args!("the MCP server '{shown}' {problem}."));
    if name.is_empty() || name.len() > NAME {
        return Err(invalid("has no name of 1 to 128 bytes"));
    }
    let address = match (kind.as_deref(), command, url) {
        (None | Some("stdio"), Some(command), _) if !command.is_empty() => {
            let words = std::iter::once(command).chain(args.into_iter().flat_map(|Bounded(args)| args)).collect();
            ClientAddress::Process { words, variables: pairs(env) }
        }
        (Some("http"), _, Some(url)) => ClientAddress::Http { url, headers: pairs(headers) },
        (Some("sse"), ..) => {
            return Err(invalid("uses the transport 'sse', which is not supported; use http or stdio"));
        }
        _ => return Err(invalid("has neither a command nor the type 'http' with a url")),
    };
    Ok(ClientServer { name, address })
}

fn pairs<const MOST: usize>(values: Option<Bounded<NamedValue, MOST>>) -> Vec<(String, String)> {
    values.into_iter().flat_map(|Bounded(values)| values).map(|NamedValue { name, value }| (name, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<ClientServer>, String> {
        let named = serde_json::from_str(json).map_err(|error| error.to_string())?;
        servers(named).map_err(|error| error.message)
    }

    #[test]
    fn servers_are_programs_or_addresses() {
        let read_servers = read(
            r#"[{"name": "a", "command": "/bin/x", "args": ["1"], "env": [{"name": "K", "value": "v"}]},
                {"type": "http", "name": "b", "url": "https://x.org", "headers": [{"name": "H", "value": "w"}]}]"#,
        );
        let [a, b] = &read_servers.unwrap()[..] else { panic!("two servers") };
        let ClientAddress::Process { words, variables } = &a.address else { panic!("a program") };
        assert_eq!(
            (&words[..], &variables[..]),
            (&["/bin/x".to_owned(), "1".to_owned()][..], &[("K".to_owned(), "v".to_owned())][..])
        );
        assert!(
            matches!(&b.address, ClientAddress::Http { url, headers } if url == "https://x.org" && headers.len() == 1)
        );
        assert!(read("null").unwrap().is_empty());
    }

    #[test]
    fn other_servers_are_refused_without_their_values() {
        for (json, words) in [
            (r#"[{"type": "sse", "name": "a", "url": "https://secret"}]"#, "'a' uses the transport 'sse'"),
            (r#"[{"type": "http", "name": "a", "headers": [{"name": "H", "value": "secret"}]}]"#, "neither a command"),
            (r#"[{"name": "a", "command": ""}]"#, "neither a command"),
            (r#"[{"name": "", "command": "x"}]"#, "has no name"),
        ] {
            let error = read(json).map(drop).unwrap_err();
            assert!(error.contains(words) && !error.contains("secret"), "{error}");
        }
    }
    #[test]
    fn remote_clients_have_public_servers_alone() {
        let all = read(
            r#"[{"name": "program", "command": "/bin/x"},
                {"type": "http", "name": "public", "url": "https://x.org/mcp"},
                {"type": "http", "name": "odd port", "url": "https://x.org:8443/mcp"},
                {"type": "http", "name": "plain", "url": "http://x.org/mcp"},
                {"type": "http", "name": "loopback", "url": "https://127.0.0.1/mcp"},
                {"type": "http", "name": "name", "url": "https://localhost/mcp"},
                {"type": "http", "name": "below", "url": "https://a.localhost/mcp"},
                {"type": "http", "name": "v6", "url": "https://[::1]/mcp"},
                {"type": "http", "name": "private", "url": "https://10.0.0.1/mcp"}]"#,
        );
        let UsableServers { used, left_out } = for_remote(all.unwrap());
        let used: Vec<_> = used.iter().map(|server| &*server.name).collect();
        assert_eq!((used, left_out.len()), (vec!["public", "odd port"], 7));
        assert!(left_out[0].starts_with("The MCP server 'program' is left out: its command would run"), "{left_out:?}");
    }
}

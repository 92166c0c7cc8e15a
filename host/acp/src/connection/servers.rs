//! The MCP servers that a client names for a session. `methods` passes them to the session.

use patchbay_session::{ClientAddress, ClientServer};

use crate::params::{Bounded, NamedServer, NamedValue};
use patchbay_jsonrpc::RpcError;

/// Length limit of a server's name, in bytes.
const NAME: usize = 128;

/// Returns the servers of the client.
///
/// # Errors
/// Which server is not one, without its values.
pub(super) fn servers(named: Option<Bounded<NamedServer, 64>>) -> Result<Vec<ClientServer>, RpcError> {
    named.into_iter().flat_map(|Bounded(servers)| servers).map(server).collect()
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
}

//! Reads `mcp.json`: MCP servers with a fixed set of fields for each transport. Nothing is started, resolved or expanded here.

use std::collections::BTreeMap;

use patchbay_core::{Code, Digest, text};
use serde_json::{Value, json};
use url::{Host, Url};

use super::{
    json::{self, Fields, MANIFEST_BYTES},
    manifest::SpecVersion,
    tree::is_version_control,
};
use crate::Problem;

/// Maximum number of servers in one package.
pub(super) const SERVERS: usize = 32;
/// The longest name of a server, in characters.
const NAME_CHARS: usize = 128;

/// Programs that load the code of a server when they start it, so the digests of the package do not cover that code.
const FETCHERS: [&str; 14] =
    ["bun", "bunx", "deno", "dnx", "docker", "npm", "npx", "pipx", "pnpm", "pnpx", "podman", "uv", "uvx", "yarn"];

/// An MCP server of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageServer {
    /// The key of the entry, without control characters; not always a [`Name`](patchbay_core::Name).
    pub name: String,
    /// How the server is reached.
    pub transport: ServerTransport,
    /// Variables of the user's environment by name, each with its default. `${NAME}` in arguments, headers and values of `env`
    /// refers to such a variable, and is replaced only if the user allows it. Only Claude Code's format has variables.
    pub variables: BTreeMap<String, Option<String>>,
    /// The digest of the entry and its format, because the two formats read the same entry differently. It changes with any field
    /// of the entry, but not with the order of fields or white space.
    pub digest: Digest,
}

pub(super) type ServerVariables = BTreeMap<String, Option<String>>;

/// Why an entry is left out.
pub(super) enum ServerRefusal {
    /// The entry breaks a rule of the format.
    Invalid(String),
    /// The entry needs something that Patchbay does not support.
    Unsupported(String),
}

impl From<String> for ServerRefusal {
    fn from(why: String) -> Self {
        Self::Invalid(why)
    }
}

impl PackageServer {
    /// Returns the entry with which other clients start Patchbay to serve the skills of a package. Patchbay itself skips it. `root`
    /// is the client's placeholder for the folder of the package, `${PLUGIN_ROOT}` in `mcp.json`.
    pub fn own_entry(root: &str) -> Value {
        json!({"type": "stdio", "command": "patchbay", "args": ["mcp", "--package", root]})
    }

    /// Returns whether the command is a known program that fetches the server's code at each start.
    pub fn fetches_code(&self) -> bool {
        let ServerTransport::Stdio { command, .. } = &self.transport else { return false };
        let program = command.split('.').next().unwrap_or_default().to_ascii_lowercase();
        !command.starts_with("./") && FETCHERS.contains(&&*program)
    }

    /// Returns the first variable without a default that `text` contains.
    pub fn needed_variable(&self, text: &str) -> Option<&str> {
        let needed = self.variables.iter().filter(|(_, default)| default.is_none()).map(|(name, _)| &**name);
        needed.into_iter().find(|name| text.contains(&format!("${{{name}}}")))
    }

    /// Returns whether this is the entry that [`PackageServer::own_entry`] returns, for `mcp.json` or for Claude Code.
    pub(super) fn is_own(&self) -> bool {
        let own = |root| [ServerForm::McpJson, ServerForm::Claude].map(|form| form.digest(&Self::own_entry(root)));
        ["${PLUGIN_ROOT}", "${CLAUDE_PLUGIN_ROOT}"].into_iter().any(|root| own(root).contains(&self.digest))
    }
}

/// The format in which an entry is written.
#[derive(Clone, Copy)]
pub(super) enum ServerForm {
    McpJson,
    Claude,
}

impl ServerForm {
    /// Returns the digest of an entry. An equal entry in the other format has a different digest, because Claude Code's format
    /// replaces variables that `mcp.json` leaves alone.
    fn digest(self, entry: &Value) -> Digest {
        let form = match self {
            Self::McpJson => "",
            Self::Claude => "claude ",
        };
        Digest::of(format!("{form}{}", canonical(entry)).as_bytes())
    }
}

/// How a server is reached. The strings are exactly as in the file: not cleaned, and without replaced placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTransport {
    /// A program.
    Stdio {
        /// A bare name that is looked up in `PATH`, or a path in the package that begins with `./`.
        command: String,
        /// Arguments, which may contain `${PLUGIN_ROOT}` and `${PLUGIN_DATA}`.
        args: Vec<String>,
        /// Variables by name; values may contain both placeholders.
        env: BTreeMap<String, String>,
        /// The working directory, with a placeholder or as `./…`; `None`: the root of the package.
        cwd: Option<String>,
    },
    /// An address: https, or http to this machine.
    StreamableHttp {
        /// The endpoint.
        url: Url,
        /// Fixed headers by name.
        headers: BTreeMap<String, String>,
    },
}

/// Parses an `mcp.json` of a package whose manifest targets `spec`. Returns the usable servers, sorted by name, and a problem for
/// each other entry: `package_server_invalid` or `package_server_unsupported`.
///
/// # Errors
/// `package_servers_invalid`: no server can be used.
pub fn parse_servers(bytes: &[u8], spec: SpecVersion) -> Result<(Vec<PackageServer>, Vec<Problem>), Problem> {
    let (mut servers, mut problems) = (Vec::new(), Vec::new());
    let entries = entries(bytes, spec).map_err(|why| {
        let message = format!("mcp.json: {why}. None of its servers are loaded.");
        Problem::new(Code::PackageServersInvalid, message)
    })?;
    for (name, entry) in entries {
        let read = |entry| transport(entry, spec).map(|transport| (transport, ServerVariables::new()));
        match server("mcp.json", ServerForm::McpJson, &name, entry, read) {
            Ok(server) => servers.push(server),
            Err(problem) => problems.push(problem),
        }
    }
    Ok((servers, problems))
}

/// Creates a server from the entry `name` in `file`. `read` parses the entry.
pub(super) fn server(
    file: &str,
    form: ServerForm,
    name: &str,
    entry: Value,
    read: impl FnOnce(Value) -> Result<(ServerTransport, ServerVariables), ServerRefusal>,
) -> Result<PackageServer, Problem> {
    let problem = |code, why: &str| {
        Problem::new(code, format!("{file}: server '{}' is left out: {why}.", text::excerpt(name, 80)))
    };
    let digest = form.digest(&entry);
    if name.is_empty() || text::clean_line(name) != name || name.chars().count() > NAME_CHARS {
        let why = format!("its name must have 1 to {NAME_CHARS} visible characters");
        return Err(problem(Code::PackageServerInvalid, &why));
    }
    match read(entry) {
        Ok((transport, variables)) => Ok(PackageServer { name: name.to_owned(), transport, variables, digest }),
        Err(ServerRefusal::Unsupported(why)) => Err(problem(Code::PackageServerUnsupported, &why)),
        Err(ServerRefusal::Invalid(why)) => Err(problem(Code::PackageServerInvalid, &why)),
    }
}

/// Checks everything except the entries themselves, and returns them by name.
fn entries(bytes: &[u8], spec: SpecVersion) -> Result<BTreeMap<String, Value>, String> {
    if bytes.len() as u64 > MANIFEST_BYTES {
        return Err(format!("over {MANIFEST_BYTES} bytes"));
    }
    let mut fields = json::object(bytes)?;
    let targeted = SpecVersion::of_schema(&fields.required("$schema")?, "mcp")?;
    if targeted != spec {
        let (targeted, spec) = (targeted.as_str(), spec.as_str());
        return Err(format!("it targets Agent Plugins {targeted}, but plugin.json targets {spec}"));
    }
    let entries = fields.take("mcpServers").ok_or("'mcpServers' is missing")?;
    let entries = Fields::of(entries).map_err(|error| format!("'mcpServers': {error}"))?.sorted();
    fields.closed()?;
    match entries.len() {
        count if count > SERVERS => Err(format!("{count} servers; the limit is {SERVERS}")),
        _ => Ok(entries),
    }
}

/// Reads one entry.
pub(super) fn transport(entry: Value, spec: SpecVersion) -> Result<ServerTransport, ServerRefusal> {
    let mut fields = Fields::of(entry)?;
    let kind = fields.required("type")?;
    if spec == SpecVersion::V1_1
        && let Some(extensions) = fields.take("extensions")
    {
        Fields::of(extensions).map_err(|error| format!("'extensions': {error}"))?;
    }
    let transport = match &*kind {
        "stdio" => stdio(&mut fields)?,
        "streamable-http" | "sse" => {
            let (url, headers) = (fields.required("url")?, headers(fields.string_map("headers")?)?);
            ServerTransport::StreamableHttp { url: endpoint(&url)?, headers }
        }
        other => return Err(ServerRefusal::Invalid(format!("unknown type '{}'", text::excerpt(other, 80)))),
    };
    fields.closed()?;
    match &*kind {
        "sse" => Err(ServerRefusal::Unsupported(
            "Patchbay does not support the deprecated transport 'sse', only 'stdio' and 'streamable-http'".to_owned(),
        )),
        _ => Ok(transport),
    }
}

fn stdio(fields: &mut Fields) -> Result<ServerTransport, String> {
    let command = fields.required("command")?;
    let shown = text::excerpt(&command, 80);
    if let Some(path) = command.strip_prefix("./") {
        stays_inside(path).map_err(|why| format!("command '{shown}' {why}"))?;
        if path.split('/').all(|name| name.is_empty() || name == ".") {
            return Err(format!("command '{shown}' names no file"));
        }
        if path.split('/').any(is_version_control) {
            return Err(format!(
                "command '{shown}' is in a version control folder, which does not belong to a package"
            ));
        }
    } else if command.is_empty() || command.starts_with('.') || command.contains(['/', '\\']) {
        return Err(format!(
            "command '{shown}' is neither a program name nor a path that begins with './'; placeholders are not replaced there"
        ));
    } else if command.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(format!("command '{shown}' must be one token; put arguments into 'args'"));
    }
    let args = fields.strings("args")?;
    let env = fields.string_map("env")?;
    for (name, value) in &env {
        let shown = text::excerpt(name, 80);
        if matches!(&**name, "PLUGIN_ROOT" | "PLUGIN_DATA") {
            return Err(format!("'env' may not set {shown}, which the client sets"));
        }
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(format!("'env' has the variable '{shown}', which no process can have"));
        }
    }
    if args.iter().any(|arg| arg.contains('\0')) {
        return Err("'args' has a NUL character, which no process can have".to_owned());
    }
    let cwd = fields.string("cwd")?;
    if let Some(cwd) = &cwd {
        let rooted = ["${PLUGIN_ROOT}", "${PLUGIN_DATA}"].into_iter().find_map(|root| cwd.strip_prefix(root));
        let below = match rooted {
            Some("") => Some(""),
            Some(rest) => rest.strip_prefix('/'),
            None => cwd.strip_prefix("./"),
        };
        let shown = text::excerpt(cwd, 80);
        let below = below.ok_or_else(|| {
            format!("cwd '{shown}' must begin with './', or be ${{PLUGIN_ROOT}} or ${{PLUGIN_DATA}} or a path below it")
        })?;
        stays_inside(below).map_err(|why| format!("cwd '{shown}' {why}"))?;
    }
    Ok(ServerTransport::Stdio { command, args, env, cwd })
}

/// Refuses a path that leads above its root at any point. Links are not checked here, because links in a package always stay inside
/// it.
fn stays_inside(path: &str) -> Result<(), &'static str> {
    let mut depth = 0_usize;
    for name in path.split('/') {
        depth = match name {
            "" | "." => depth,
            ".." => depth.checked_sub(1).ok_or("leads out of the package")?,
            _ => depth + 1,
        };
    }
    if path.contains(['\\', '\0']) { Err("has a backslash or a NUL character") } else { Ok(()) }
}

fn endpoint(written: &str) -> Result<Url, String> {
    let shown = text::excerpt(written, 120);
    // The URL parser accepts much that the specification does not allow, such as an empty user, or one slash instead of two.
    if written.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err(format!("url '{shown}' has white space or a backslash"));
    }
    let url = Url::parse(written).map_err(|error| format!("url '{shown}' is invalid: {error}"))?;
    let after_scheme = written.get(url.scheme().len()..).and_then(|rest| rest.strip_prefix("://"));
    let authority = after_scheme.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    if authority.is_empty() || authority.contains('@') || url.fragment().is_some() {
        return Err(format!("url '{shown}' must be absolute, without user and fragment"));
    }
    let is_local = match url.host() {
        Some(Host::Domain(domain)) => domain == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_local => Ok(url),
        "http" => Err(format!("url '{shown}' must be https; http is only for this machine")),
        _ => Err(format!("url '{shown}' is not an https address")),
    }
}

fn headers(headers: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let mut seen = Vec::new();
    for (name, value) in &headers {
        let shown = text::excerpt(name, 80);
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            return Err(format!("invalid header name '{shown}'"));
        }
        if value.contains(|c: char| c.is_control() && c != '\t') {
            return Err(format!("header '{shown}' has a control character in its value"));
        }
        let lower = name.to_ascii_lowercase();
        if seen.contains(&lower) {
            return Err(format!("header '{shown}' appears twice; header names ignore case"));
        }
        seen.push(lower);
    }
    Ok(headers)
}

/// Returns a value as text with sorted keys.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            let field = |(key, value): (&String, &Value)| format!("{}:{}", Value::from(key.as_str()), canonical(value));
            format!("{{{}}}", sorted.into_iter().map(field).collect::<Vec<_>>().join(","))
        }
        Value::Array(values) => format!("[{}]", values.iter().map(canonical).collect::<Vec<_>>().join(",")),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(servers: &Value) -> (Vec<PackageServer>, Vec<Problem>) {
        let file = json!({"$schema": SpecVersion::V1_0.schema("mcp"), "mcpServers": servers});
        parse_servers(file.to_string().as_bytes(), SpecVersion::V1_0).unwrap()
    }

    /// Returns why an entry is left out.
    fn refusal(entry: &Value) -> String {
        let (servers, problems) = parse(&json!({"good": {"type": "stdio", "command": "x"}, "s": entry}));
        assert_eq!(servers.len(), 1, "{entry} was accepted");
        assert_eq!((problems.len(), problems[0].code), (1, Code::PackageServerInvalid));
        let message = problems[0].message.strip_prefix("mcp.json: server 's' is left out: ").unwrap();
        message.trim_end_matches('.').to_owned()
    }

    fn stdio(command: &str, cwd: &str) -> Value {
        json!({"type": "stdio", "command": command, "cwd": cwd})
    }

    #[test]
    fn each_variant_is_read() {
        let (servers, problems) = parse(&json!({
            "remote": {"type": "streamable-http", "url": "https://a.example/mcp", "headers": {"X-Tenant": "a"}},
            "local": {"type": "stdio", "command": "./bin/../server", "args": ["${PLUGIN_DATA}/x"], "env": {"A": "b"}, "cwd": "./"},
            "old": {"type": "sse", "url": "https://a.example/sse"},
        }));
        assert_eq!(servers.iter().map(|server| &*server.name).collect::<Vec<_>>(), ["local", "remote"]);
        let ServerTransport::Stdio { args, cwd, .. } = &servers[0].transport else { panic!() };
        assert_eq!((&args[..], cwd.as_deref()), (&["${PLUGIN_DATA}/x".to_owned()][..], Some("./")));
        assert_eq!((problems.len(), problems[0].code), (1, Code::PackageServerUnsupported));
        assert!(problems[0].message.contains("'old'") && problems[0].message.contains("'sse'"));
        assert_eq!(parse(&json!({})), (Vec::new(), Vec::new()));
    }

    #[test]
    fn digest_is_independent_of_order() {
        let digest = |entry: &str| {
            let schema = SpecVersion::V1_0.schema("mcp");
            let file = format!(r#"{{"$schema": "{schema}", "mcpServers": {{"s": {entry}}}}}"#);
            parse_servers(file.as_bytes(), SpecVersion::V1_0).unwrap().0[0].digest
        };
        let one = digest(r#"{"type": "stdio", "command": "x", "args": ["a", "b"]}"#);
        assert_eq!(one, digest(r#"{"args":["a","b"],"command":"x","type":"stdio"}"#));
        assert_ne!(one, digest(r#"{"type": "stdio", "command": "x", "args": ["b", "a"]}"#));
    }

    #[test]
    fn programs_that_fetch_code_are_known() {
        let fetches = |command: &str| parse(&json!({"s": stdio(command, "./")})).0[0].fetches_code();
        for command in ["npx", "npx.cmd", "uvx", "docker", "DENO.exe", "pipx", "bunx"] {
            assert!(fetches(command), "{command}");
        }
        for command in ["node", "python3", "./npx", "./bin/uvx"] {
            assert!(!fetches(command), "{command}");
        }
    }

    #[test]
    fn commands_are_one_token_inside_the_package() {
        for command in ["uvx", "node.exe", "./bin/server", "./a b", "./$x"] {
            assert_eq!(parse(&json!({"s": {"type": "stdio", "command": command}})).0.len(), 1, "{command}");
        }
        for command in ["", "..", "../x", "/bin/sh", "bin/x", "a\\b", "${PLUGIN_ROOT}/x", ".x"] {
            assert!(refusal(&stdio(command, "./")).contains("neither a program name"), "{command}");
        }
        assert!(refusal(&stdio("npx -y x", "./")).ends_with("put arguments into 'args'"));
        assert!(refusal(&stdio("./a/../../x", "./")).ends_with("leads out of the package"));
        assert!(refusal(&stdio("./", "./")).ends_with("names no file"));
        for command in ["./.git/x", "./a/.JJ/x"] {
            assert!(refusal(&stdio(command, "./")).ends_with("which does not belong to a package"), "{command}");
        }
    }

    #[test]
    fn cwd_has_three_forms() {
        for cwd in ["./", "./a/../b", "${PLUGIN_ROOT}", "${PLUGIN_ROOT}/a", "${PLUGIN_DATA}", "${PLUGIN_DATA}/a"] {
            assert_eq!(parse(&json!({"s": stdio("x", cwd)})).1, [], "{cwd}");
        }
        for cwd in ["", "a", "/tmp", "${HOME}", "${PLUGIN_ROOT}x", "~"] {
            assert!(refusal(&stdio("x", cwd)).contains("must begin with './'"), "{cwd}");
        }
        for cwd in ["./..", "${PLUGIN_DATA}/../x", "./a/../../b"] {
            assert!(refusal(&stdio("x", cwd)).ends_with("leads out of the package"), "{cwd}");
        }
    }

    #[test]
    fn addresses_and_headers_follow_the_specification() {
        let remote = |url: &str| json!({"type": "streamable-http", "url": url});
        for url in ["https://a.example", "http://localhost:1/x", "http://127.0.0.2", "http://[::1]:8/"] {
            assert_eq!(parse(&json!({"s": remote(url)})).1, [], "{url}");
        }
        for (url, why) in [
            ("http://a.example", "must be https; http is only for this machine"),
            ("http://localhost.example", "must be https; http is only for this machine"),
            ("ftp://a.example", "is not an https address"),
            ("/mcp", "relative URL without a base"),
            ("https://me@a.example", "must be absolute, without user and fragment"),
            ("https://@a.example", "must be absolute, without user and fragment"),
            ("https:/me@a.example/?http://b", "must be absolute, without user and fragment"),
            ("https:///me@a.example", "must be absolute, without user and fragment"),
            ("https:a.example", "must be absolute, without user and fragment"),
            ("https://a.example/#", "must be absolute, without user and fragment"),
            ("https://a.example\\@b", "has white space or a backslash"),
            ("${URL}", "relative URL without a base"),
        ] {
            assert!(refusal(&remote(url)).ends_with(why), "{url}: {}", refusal(&remote(url)));
        }
        let headers = |headers: Value| {
            refusal(&json!({"type": "streamable-http", "url": "https://a.example", "headers": headers}))
        };
        assert_eq!(headers(json!({"a b": "x"})), "invalid header name 'a b'");
        assert!(headers(json!({"A": "x\r\nB: y"})).ends_with("control character in its value"));
        assert_eq!(headers(json!({"A": "x", "a": "x"})), "header 'a' appears twice; header names ignore case");
    }

    #[test]
    fn variants_are_closed() {
        for (entry, why) in [
            (json!([]), "expected an object, found an array"),
            (json!({"command": "x"}), "'type' is missing"),
            (json!({"type": "http", "url": "https://a.example"}), "unknown type 'http'"),
            (json!({"type": "stdio"}), "'command' is missing"),
            (json!({"type": "stdio", "command": "x", "url": "y"}), "unknown field 'url'"),
            (json!({"type": "stdio", "command": "x", "extensions": {}}), "unknown field 'extensions'"),
            (json!({"type": "stdio", "command": "x", "args": "y"}), "'args' must be an array of strings, not a string"),
            (json!({"type": "stdio", "command": "x", "env": {"A": 1}}), "'env.A' must be a string, not a number"),
            (
                json!({"type": "stdio", "command": "x", "env": {"PLUGIN_ROOT": ""}}),
                "'env' may not set PLUGIN_ROOT, which the client sets",
            ),
            (json!({"type": "sse", "url": "https://a.example", "command": "x"}), "unknown field 'command'"),
        ] {
            assert_eq!(refusal(&entry), why);
        }
    }

    #[test]
    fn bad_file_costs_all_servers() {
        let message = |file: &Value, spec| {
            let problem = parse_servers(file.to_string().as_bytes(), spec).unwrap_err();
            assert_eq!(problem.code, Code::PackageServersInvalid);
            problem.message
        };
        let (old, new) = (SpecVersion::V1_0, SpecVersion::V1_1);
        let none = json!({"$schema": new.schema("mcp"), "mcpServers": {}});
        assert_eq!(
            message(&none, old),
            "mcp.json: it targets Agent Plugins 1.1.0, but plugin.json targets 1.0.0. None of its servers are loaded."
        );
        assert!(message(&json!({"mcpServers": {}}), old).contains("'$schema' is missing"));
        assert!(message(&json!({"$schema": old.schema("mcp")}), old).contains("'mcpServers' is missing"));
        assert!(
            message(&json!({"$schema": old.schema("mcp"), "mcpServers": {}, "x": 1}), old)
                .contains("unknown field 'x'")
        );
        let many: BTreeMap<_, _> = (0..=SERVERS).map(|n| (n.to_string(), json!({}))).collect();
        let many = json!({"$schema": old.schema("mcp"), "mcpServers": many});
        assert!(message(&many, old).contains("33 servers; the limit is 32"));
        let draft = json!({"$schema": new.schema("mcp"), "mcpServers":
            {"s": {"type": "stdio", "command": "x", "extensions": {"com.example": {}}}}});
        assert_eq!(parse_servers(draft.to_string().as_bytes(), new).unwrap().0.len(), 1);
    }
}

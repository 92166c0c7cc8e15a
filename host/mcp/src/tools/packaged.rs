//! The MCP servers of packages, once the operator has allowed them. `session` finds them before each turn.

use std::{collections::BTreeMap, env, path::PathBuf};

use patchbay_policy::allow_server_command;
use patchbay_skill::agent_plugin::ServerTransport;
use patchbay_store::ServerAllowance;

use super::parts::ServerParts;
use crate::client::{Launch, PackageFiles, ServerAddress};

/// An allowed server of an installed package.
#[derive(Clone, PartialEq, Eq)]
pub struct PackagedServer {
    /// The operator's permission. Its digest is the digest of the entry that declares `transport`.
    pub allowance: ServerAllowance,
    /// The package's declaration of the server, with its placeholders.
    pub transport: ServerTransport,
    /// The placeholders in `transport` other than `PLUGIN_ROOT` and `PLUGIN_DATA`, each with its default.
    pub variables: BTreeMap<String, Option<String>>,
    /// The files of the package.
    pub files: PackageFiles,
}

impl PackagedServer {
    /// Returns the command that allows the server. A `name` for its tools is added as `--as NAME`.
    pub(super) fn allow_command(&self, name: Option<&str>) -> String {
        allow_server_command(self.allowance.package.as_str(), &self.allowance.server, name)
    }

    /// Returns how the server is reached. Placeholders are replaced in arguments, in values of variables and in the folder.
    pub(super) fn address(&self, parts: &ServerParts) -> ServerAddress {
        let Self { allowance, transport, variables, files } = self;
        let (command, args, env, cwd) = match transport {
            ServerTransport::Stdio { command, args, env, cwd } => (command, args, env, cwd),
            ServerTransport::StreamableHttp { url, headers } => {
                let owner = format!("package:{}/{}", allowance.package, allowance.server);
                // A credential replaces the `Authorization` header, whose value is a placeholder for it.
                let is_own = |name: &str| allowance.credential.is_none() || !name.eq_ignore_ascii_case("authorization");
                let headers = headers.iter().filter(|(name, _)| is_own(name));
                let default = |name: &str| variables.get(name).cloned().flatten();
                let headers = headers.map(|(name, value)| (name.clone(), expand(value, default)));
                return parts.endpoint(owner, url.to_string(), allowance.credential.clone(), headers.collect());
            }
        };
        let [root, data] = [&files.root, &files.data].map(|folder| folder.to_string_lossy().into_owned());
        let place = |name: &str| match name {
            "PLUGIN_ROOT" => Some(root.clone()),
            "PLUGIN_DATA" => Some(data.clone()),
            _ => None,
        };
        let value = |name: &str| {
            place(name).or_else(|| {
                let default = variables.get(name)?;
                let allowed = allowance.env.iter().any(|allowed| allowed == name);
                allowed.then(|| env::var(name).ok()).flatten().or_else(|| default.clone())
            })
        };
        let unset = variables.keys().find(|name| value(name).is_none()).cloned();
        let expanded = |text: &str| expand(text, value);
        let below = |path: &str| files.root.join(path);
        let program = command
            .strip_prefix("./")
            .map_or_else(|| command.clone(), |path| below(path).to_string_lossy().into_owned());
        let folder = match cwd.as_deref() {
            None => files.root.clone(),
            // Other placeholders are not replaced, because their values could lead out of the package.
            Some(cwd) => cwd.strip_prefix("./").map_or_else(|| PathBuf::from(expand(cwd, place)), below),
        };
        // Otherwise Python would write bytecode beside its sources, which would count as a change of the package.
        let mut variables = vec![("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned())];
        variables.extend(env.iter().map(|(name, value)| (name.clone(), expanded(value))));
        variables.extend(allowance.env.iter().filter_map(|name| Some((name.clone(), env::var(name).ok()?))));
        variables.extend([("PLUGIN_ROOT".to_owned(), root.clone()), ("PLUGIN_DATA".to_owned(), data.clone())]);
        let words = std::iter::once(program).chain(args.iter().map(|arg| expanded(arg))).collect();
        ServerAddress::Process(Launch { words, variables, folder, package: Some(files.clone()), unset })
    }
}

/// The longest name of a variable, in bytes. Without this limit, searching for its end would take quadratic time.
const NAME_BYTES: usize = 1_000;

/// Replaces each `${NAME}` that has a value. The values are not searched again.
fn expand(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some((before, inside)) = rest.split_once("${") {
        expanded += before;
        let end = inside.bytes().take(NAME_BYTES).position(|byte| byte == b'}');
        match end.and_then(|end| Some((value(&inside[..end])?, &inside[end + 1..]))) {
            Some((value, after)) => {
                expanded += &value;
                rest = after;
            }
            None => {
                expanded += "${";
                rest = inside;
            }
        }
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use patchbay_core::Digest;
    use patchbay_egress::Credentials;
    use patchbay_sandbox::Limits;
    use patchbay_store::Store;

    use super::*;

    #[test]
    fn placeholders_are_replaced_once() {
        let value = |name: &str| match name {
            "PLUGIN_ROOT" => Some("/r/${PLUGIN_DATA}".to_owned()),
            "PLUGIN_DATA" => Some("/d".to_owned()),
            _ => None,
        };
        let expanded = |text: &str| expand(text, value);
        for (text, expected) in [
            ("", ""),
            ("--data=${PLUGIN_DATA}/x:${PLUGIN_ROOT}", "--data=/d/x:/r/${PLUGIN_DATA}"),
            ("${PLUGIN_ROOT}${PLUGIN_ROOT}", "/r/${PLUGIN_DATA}/r/${PLUGIN_DATA}"),
            ("${PLUGIN_${PLUGIN_DATA}", "${PLUGIN_/d"),
            (
                "$PLUGIN_ROOT ${HOME} ${PLUGIN_ROOTS} ${plugin_root}",
                "$PLUGIN_ROOT ${HOME} ${PLUGIN_ROOTS} ${plugin_root}",
            ),
        ] {
            assert_eq!(expanded(text), expected, "{text}");
        }
    }

    #[test]
    fn entry_becomes_a_launch_in_the_package() {
        let home = tempfile::tempdir().unwrap();
        let (store, credentials) = (Store::open(home.path()).unwrap(), Credentials::open(home.path(), BTreeMap::new()));
        let parts = ServerParts::new(BTreeMap::new(), store, home.path().to_owned(), credentials, &Limits::default());
        let launched = |command: &str, cwd: Option<&str>| {
            let files = PackageFiles {
                package: "tools".parse().unwrap(),
                root: "/p".into(),
                digest: Digest::of(b""),
                data: "/d".into(),
            };
            let allowance = ServerAllowance {
                name: "docs".parse().unwrap(),
                package: "tools".parse().unwrap(),
                server: "docs".to_owned(),
                digest: Digest::of(b""),
                env: vec!["PATH".to_owned(), "NO_SUCH_VARIABLE".to_owned()],
                credential: None,
            };
            let variables = BTreeMap::from([
                ("NO_SUCH_VARIABLE".to_owned(), None),
                ("PATH".to_owned(), None),
                ("UP".to_owned(), Some("../..".to_owned())),
            ]);
            let transport = ServerTransport::Stdio {
                command: command.to_owned(),
                args: vec!["${PLUGIN_ROOT}/x".to_owned()],
                env: BTreeMap::from([
                    ("AT".to_owned(), "${PLUGIN_DATA}".to_owned()),
                    ("PATH".to_owned(), "/".to_owned()),
                ]),
                cwd: cwd.map(str::to_owned),
            };
            let ServerAddress::Process(launch) =
                (PackagedServer { allowance, transport, variables, files }).address(&parts)
            else {
                panic!("a program")
            };
            launch
        };
        let launch = launched("./bin/run", None);
        assert_eq!(launch.unset.as_deref(), Some("NO_SUCH_VARIABLE"));
        assert_eq!(
            (&launch.words[..], launch.folder),
            (&["/p/bin/run".to_owned(), "/p/x".to_owned()][..], "/p".into())
        );
        let variables: BTreeMap<_, _> = launch.variables.into_iter().collect();
        let names: Vec<&str> = variables.keys().map(String::as_str).collect();
        assert_eq!(names, ["AT", "PATH", "PLUGIN_DATA", "PLUGIN_ROOT", "PYTHONDONTWRITEBYTECODE"]);
        assert_eq!((&*variables["AT"], &*variables["PLUGIN_ROOT"]), ("/d", "/p"));
        assert_eq!(variables["PATH"], env::var("PATH").unwrap(), "the operator's variable replaces the entry's");
        for (cwd, folder) in [
            ("./a", "/p/a"),
            ("${PLUGIN_ROOT}", "/p"),
            ("${PLUGIN_DATA}/w", "/d/w"),
            ("${PLUGIN_DATA}/${UP}", "/d/${UP}"),
        ] {
            let launch = launched("npx", Some(cwd));
            assert_eq!((&*launch.words[0], launch.folder), ("npx", folder.into()));
        }
    }
}

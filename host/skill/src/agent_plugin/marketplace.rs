//! Reads `marketplace.json`: an index of plugins in a repository. It is not part of Agent Plugins, but every client reads Claude
//! Code's format or a similar one. Patchbay does not fetch the plugins; it shows the commands to type.

use std::path::Path;

use patchbay_core::{Code, text};
use serde_json::Value;
use url::Url;

use super::{
    json::{self, Fields, kind},
    tree,
};
use crate::{Problem, files};

/// Size limit of the file, in bytes.
const BYTES: u64 = 4 << 20;
/// Where clients look for the file, in the order that Patchbay uses.
const PLACES: [&str; 3] =
    [".agents/plugins/marketplace.json", ".claude-plugin/marketplace.json", ".github/plugin/marketplace.json"];

/// A checked `marketplace.json`. Strings are cleaned for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marketplace {
    /// The path of the file below the folder.
    pub file: &'static str,
    /// The name that the file gives itself.
    pub name: String,
    /// The plugins, in the order of the file.
    pub plugins: Vec<MarketplacePlugin>,
    /// Entries that were left out.
    pub notes: Vec<Problem>,
}

/// An entry of a marketplace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarketplacePlugin {
    /// The name: letters, digits, `.`, `_` and `-`, without a `.` or `-` at the beginning.
    pub name: String,
    /// One line about the plugin.
    pub description: Option<String>,
    /// Where the plugin is.
    pub source: PluginSource,
}

/// Where a plugin of a marketplace is. Addresses and paths contain no characters that are special in a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginSource {
    /// A path below the folder of the marketplace; empty for the folder itself.
    Folder(String),
    /// A git repository.
    Git {
        /// The https address.
        url: String,
        /// The path in the repository; `None`: its root.
        path: Option<String>,
        /// The full hash of the commit; `None` if the entry does not pin a commit.
        commit: Option<String>,
    },
    /// The kind of another source, such as an npm package.
    Unsupported(String),
}

/// Reads the first marketplace of the folder; `None` if it has none.
///
/// # Errors
/// `marketplace_invalid`.
pub fn read_marketplace(folder: &Path) -> Result<Option<Marketplace>, Problem> {
    let opened = files::open_folder(folder).map_err(|error| tree::unreadable("The folder", &error))?;
    let Some(opened) = opened else { return Ok(None) };
    for file in PLACES {
        match files::read(&opened, file, BYTES) {
            Ok(None) => {}
            Ok(Some(bytes)) => return parse(file, &bytes).map(Some).map_err(|why| invalid(file, &why)),
            Err(error) => return Err(invalid(file, &format!("cannot be read: {}", error.kind()))),
        }
    }
    Ok(None)
}

fn invalid(file: &str, why: &str) -> Problem {
    Problem::new(Code::MarketplaceInvalid, format!("{file}: {why}."))
}

fn parse(file: &'static str, bytes: &[u8]) -> Result<Marketplace, String> {
    let mut fields = json::object(bytes)?;
    let name = text::excerpt(&fields.required("name")?, 80);
    // Claude Code prepends this root to paths that do not begin with `./`.
    let root = match fields.take("metadata") {
        Some(metadata) => Fields::of(metadata).and_then(|mut metadata| metadata.string("pluginRoot"))?,
        None => None,
    };
    let entries = match fields.take("plugins") {
        Some(Value::Array(entries)) => entries,
        Some(other) => return Err(format!("'plugins' must be an array, not {}", kind(&other))),
        None => return Err("'plugins' is missing".to_owned()),
    };
    let (mut plugins, mut notes) = (Vec::new(), Vec::new());
    for (at, entry) in entries.into_iter().enumerate() {
        match plugin(entry, root.as_deref()) {
            Ok(plugin) => plugins.push(plugin),
            Err(why) => notes.push(invalid(file, &format!("'plugins[{at}]' is left out: {why}"))),
        }
    }
    Ok(Marketplace { file, name, plugins, notes })
}

fn plugin(entry: Value, root: Option<&str>) -> Result<MarketplacePlugin, String> {
    let mut fields = Fields::of(entry)?;
    let name = fields.required("name")?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 64 || name.starts_with(['.', '-']) || !name.chars().all(is_word) {
        return Err(format!("invalid name '{}'", text::excerpt(&name, 80)));
    }
    let description = fields.string("description")?.map(|text| text::excerpt(&text, 500));
    let source = match fields.take("source") {
        Some(Value::String(path)) => PluginSource::Folder(folder(&path, root)?),
        Some(Value::Object(source)) => self::source(Fields::of(source.into())?, root)?,
        Some(other) => return Err(format!("'source' must be a string or an object, not {}", kind(&other))),
        None => return Err("'source' is missing".to_owned()),
    };
    Ok(MarketplacePlugin { name, description, source })
}

fn source(mut fields: Fields, root: Option<&str>) -> Result<PluginSource, String> {
    let kind = fields.required("source")?;
    let url = match &*kind {
        "local" => return Ok(PluginSource::Folder(folder(&fields.required("path")?, root)?)),
        "github" => format!("https://github.com/{}.git", fields.required("repo")?),
        "url" | "git-subdir" => {
            let url = fields.required("url")?;
            // Claude Code also accepts a GitHub OWNER/REPO here.
            if url.contains(':') { url } else { format!("https://github.com/{url}.git") }
        }
        other => return Ok(PluginSource::Unsupported(text::excerpt(other, 80))),
    };
    let shown = text::excerpt(&url, 120);
    let is_safe = Url::parse(&url)
        .is_ok_and(|url| url.scheme() == "https" && url.username().is_empty() && url.password().is_none())
        && url.starts_with("https://")
        && url.chars().all(|c| c.is_ascii_alphanumeric() || "-._~:/%+".contains(c));
    if !is_safe {
        return Err(format!("'{shown}' is not a plain https address"));
    }
    let path = fields.string("path")?.map(|path| folder(&path, Some(""))).transpose()?;
    let commit = fields.string("sha")?;
    if let Some(commit) = &commit
        && (![40, 64].contains(&commit.len()) || !commit.chars().all(|c| c.is_ascii_hexdigit()))
    {
        return Err(format!("'sha' must be a full commit hash, not '{}'", text::excerpt(commit, 80)));
    }
    Ok(PluginSource::Git { url, path: path.filter(|path| !path.is_empty()), commit })
}

/// Checks a path and returns it without `./` and surplus slashes.
fn folder(written: &str, root: Option<&str>) -> Result<String, String> {
    let shown = text::excerpt(written, 120);
    let path = match (written.strip_prefix("./"), root) {
        (Some(path), _) => path.to_owned(),
        (None, _) if written == "." => String::new(),
        (None, Some(root)) => format!("{}/{written}", root.strip_prefix("./").unwrap_or(root)),
        (None, None) => return Err(format!("path '{shown}' must begin with './'")),
    };
    let names: Vec<_> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    let is_safe = |name: &&str| {
        *name != ".."
            && !name.starts_with('-')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '@'))
    };
    match written.starts_with('/') || !names.iter().all(is_safe) {
        true => Err(format!("path '{shown}' leads out of the folder or has a character that is not safe in a command")),
        false => Ok(names.join("/")),
    }
}

impl MarketplacePlugin {
    /// Returns the commands that add this plugin, where `root` is the folder of the marketplace as a user would type it. Empty for an
    /// unsupported source.
    pub fn commands(&self, root: &str) -> Vec<String> {
        match &self.source {
            PluginSource::Unsupported(_) => Vec::new(),
            PluginSource::Folder(path) => {
                let folder = format!("{}/{path}", root.trim_end_matches('/'));
                vec![format!("patchbay plugin add {}", quoted(folder.trim_end_matches('/')))]
            }
            PluginSource::Git { url, path, commit } => {
                let name = &self.name;
                let checkout = commit.as_ref().map(|commit| format!("git -C {name} checkout {commit}"));
                let path = path.as_ref().map(|path| format!("/{path}")).unwrap_or_default();
                let add = format!("patchbay plugin add ./{name}{path}");
                [Some(format!("git clone {url} {name}")), checkout, Some(add)].into_iter().flatten().collect()
            }
        }
    }
}

/// Quotes a path for a shell, if it needs quotes.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
    match path.starts_with('-') || !path.chars().all(is_plain) {
        true => format!("'{}'", path.replace('\'', r"'\''")),
        false => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(plugins: &Value) -> Marketplace {
        let file = json!({"name": "market", "owner": {"name": "me"}, "plugins": plugins});
        parse(PLACES[1], file.to_string().as_bytes()).unwrap()
    }

    fn commands(source: &Value) -> Vec<String> {
        let marketplace = read(&json!([{"name": "p", "source": source, "version": "1"}]));
        assert_eq!(marketplace.notes, []);
        marketplace.plugins[0].commands("./market")
    }

    fn refusal(source: &Value) -> String {
        let marketplace = read(&json!([{"name": "p", "source": source}]));
        assert_eq!(marketplace.plugins, [], "{source} was accepted");
        let message = &marketplace.notes[0].message;
        message.strip_prefix(".claude-plugin/marketplace.json: 'plugins[0]' is left out: ").unwrap().to_owned()
    }

    #[test]
    fn each_source_becomes_commands() {
        let sha = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(commands(&json!("./plugins/a")), ["patchbay plugin add ./market/plugins/a"]);
        assert_eq!(commands(&json!("./")), ["patchbay plugin add ./market"]);
        assert_eq!(commands(&json!({"source": "local", "path": "./a"})), ["patchbay plugin add ./market/a"]);
        assert_eq!(
            commands(&json!({"source": "github", "repo": "o/r", "ref": "v1", "sha": sha})),
            ["git clone https://github.com/o/r.git p", &format!("git -C p checkout {sha}"), "patchbay plugin add ./p"]
        );
        assert_eq!(
            commands(&json!({"source": "git-subdir", "url": "https://git.example/o/r", "path": "a/b"})),
            ["git clone https://git.example/o/r p", "patchbay plugin add ./p/a/b"]
        );
        assert_eq!(commands(&json!({"source": "npm", "package": "x"})), [""; 0]);
    }

    #[test]
    fn shells_get_no_strange_words() {
        for (source, why) in [
            (json!("../out"), "must begin with './'"),
            (json!("./../out"), "leads out of the folder"),
            (json!("./a b"), "a character that is not safe"),
            (json!("./-x"), "a character that is not safe"),
            (json!({"source": "url", "url": "ext::sh -c x"}), "is not a plain https address"),
            (json!({"source": "url", "url": "https://a.example/$(x)"}), "is not a plain https address"),
            (json!({"source": "url", "url": "https://me@a.example/x"}), "is not a plain https address"),
            (json!({"source": "url", "url": "file:///x"}), "is not a plain https address"),
            (json!({"source": "github", "repo": "o/r;x"}), "is not a plain https address"),
            (json!({"source": "github", "repo": "o/r", "sha": "main"}), "must be a full commit hash, not 'main'"),
            (json!({"source": "git-subdir", "url": "https://a.example", "path": "/etc"}), "leads out of the folder"),
            (json!(7), "'source' must be a string or an object, not a number"),
        ] {
            assert!(refusal(&source).contains(why), "{source}: {}", refusal(&source));
        }
        assert_eq!(quoted("/tmp/it's here"), r"'/tmp/it'\''s here'");
    }

    #[test]
    fn bad_entry_costs_itself() {
        let read = read(&json!([{"name": "a b", "source": "./a"}, 5, {"name": "ok", "source": "./ok"}, {"name": "x"}]));
        assert_eq!((read.plugins.len(), read.notes.len(), &*read.plugins[0].name), (1, 3, "ok"));
        assert!(read.notes.iter().all(|note| note.code == Code::MarketplaceInvalid));
    }

    #[test]
    fn first_place_is_read() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_marketplace(folder.path()), Ok(None));
        for (place, name) in PLACES.iter().zip(["codex", "claude", "github"]).rev() {
            let file = folder.path().join(place);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            let plugins =
                json!({"name": name, "metadata": {"pluginRoot": "./all"}, "plugins": [{"name": "p", "source": "p"}]});
            std::fs::write(file, plugins.to_string()).unwrap();
            let read = read_marketplace(folder.path()).unwrap().unwrap();
            assert_eq!(
                (&*read.name, read.file, &read.plugins[0].source),
                (name, *place, &PluginSource::Folder("all/p".into()))
            );
        }
        let file = std::fs::File::create(folder.path().join(PLACES[0])).unwrap();
        file.set_len(BYTES + 1).unwrap();
        assert_eq!(read_marketplace(folder.path()).unwrap_err().code, Code::MarketplaceInvalid);
    }
}

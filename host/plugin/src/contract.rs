//! Writes the contract (WIT) in the layout that bindings generators read: the author's world, and in `deps` the packages that it
//! uses.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{PluginKind, embedded};

/// The world of a skill. It includes every interface, because importing one grants nothing: the grants decide which interfaces
/// work.
const SKILL_WORLD: &str = "\
package patchbay:plugin;

/// Everything a skill can use. You may remove imports you don't need; what the skill may do is decided by SKILL.md and the user's
/// grants, not here.
world plugin {
  include patchbay:skill/skill-plugin@0.1.2;
  import patchbay:host/call@0.1.2;
  import patchbay:host/skill-files@0.1.2;
  import patchbay:host/tool-calls@0.1.2;
  import patchbay:host/tool-index@0.1.2;
  import patchbay:host/workspace-changes@0.1.2;
  import patchbay:host/workspace-search@0.1.2;
}
";

const PROVIDER_WORLD: &str = "\
package patchbay:plugin;

/// The adapter of a provider. To list models, report facts about unlisted ones, or take the completion's options into account
/// when you explain a thinking level, export the optional interfaces of deps/provider/provider.wit.
world plugin {
  include patchbay:provider/provider-plugin@0.1.2;
}
";

/// Returns the files of the contract: path relative to the WIT folder, and content.
pub(crate) fn files(kind: PluginKind) -> Vec<(String, Vec<u8>)> {
    let (world, package) = match kind {
        PluginKind::Skill => (SKILL_WORLD, "skill"),
        PluginKind::Provider => (PROVIDER_WORLD, "provider"),
    };
    let dependency = |package: &str| {
        let content = embedded::file(&format!("wit/{package}/{package}.wit"));
        (format!("deps/{package}/{package}.wit"), content.to_vec())
    };
    vec![("world.wit".to_owned(), world.into()), dependency("host"), dependency(package)]
}

/// Writes the contract into `folder` and returns the written files. An existing `world.wit` belongs to the author and is not
/// overwritten.
///
/// # Errors
/// A file cannot be written.
pub fn write_contract(folder: &Path, kind: PluginKind) -> io::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for (path, content) in files(kind) {
        let path = folder.join(path);
        if path.file_name().is_some_and(|name| name == "world.wit") && path.exists() {
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, content)?;
        written.push(path);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use wit_parser::Resolve;

    use super::*;

    #[test]
    fn generators_can_read_the_layout() {
        for (kind, export) in [
            (PluginKind::Skill, "patchbay:skill/skill@0.1.2"),
            (PluginKind::Provider, "patchbay:provider/adapter@0.1.2"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            assert_eq!(write_contract(folder.path(), kind).unwrap().len(), 3);
            let mut resolve = Resolve::default();
            let (package, _) = resolve.push_dir(folder.path()).unwrap();
            let world = resolve.select_world(&[package], Some("plugin")).unwrap();
            let exports: Vec<_> = resolve.worlds[world].exports.keys().map(|key| resolve.name_world_key(key)).collect();
            assert_eq!(exports, [export]);
        }
    }

    #[test]
    fn own_world_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("world.wit"), "package my:own;").unwrap();
        let written = write_contract(folder.path(), PluginKind::Skill).unwrap();
        assert_eq!(written, ["deps/host/host.wit", "deps/skill/skill.wit"].map(|path| folder.path().join(path)));
        assert_eq!(fs::read(folder.path().join("world.wit")).unwrap(), b"package my:own;");
    }
}

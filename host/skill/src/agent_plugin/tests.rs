//! Tests the specification's checklist with real folders, and packages that are structured like five public plugins.

mod claude;

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

struct Package(TempDir);

impl Package {
    fn new(manifest: &Value) -> Self {
        Self::bare().file("plugin.json", &manifest.to_string())
    }

    /// A folder without a manifest.
    fn bare() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(self, path: &str, contents: &str) -> Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
        self
    }

    fn skill(self, name: &str) -> Self {
        let skill_md = format!("---\nname: {name}\ndescription: Does {name}.\n---\nDo {name}.\n");
        self.file(&format!("skills/{name}/SKILL.md"), &skill_md)
    }

    fn servers(self, servers: &Value) -> Self {
        let file = json!({"$schema": SpecVersion::V1_0.schema("mcp"), "mcpServers": servers});
        self.file("mcp.json", &file.to_string())
    }

    fn link(self, path: &str, target: &str) -> Self {
        symlink(target, self.0.path().join(path)).unwrap();
        self
    }

    fn read(&self) -> Result<AgentPlugin, Problem> {
        AgentPlugin::read(self.0.path())
    }

    fn refusal(&self) -> (Code, String) {
        let problem = self.read().unwrap_err();
        (problem.code, problem.message)
    }
}

fn manifest(name: &str) -> Value {
    json!({"$schema": SpecVersion::V1_0.schema("plugin"), "name": name})
}

/// Returns the names of the skills that load, the names and codes of the skills that don't, and the names of the servers.
fn parts(plugin: &AgentPlugin) -> (Vec<&str>, Vec<(&str, Code)>, Vec<&str>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for skill in &plugin.skills {
        match &skill.found.candidate {
            Ok(candidate) => good.push(candidate.name.as_str()),
            Err(problem) => bad.push((&*skill.found.label, problem.code)),
        }
    }
    (good, bad, plugin.servers.iter().map(|server| &*server.name).collect())
}

fn notes(plugin: &AgentPlugin) -> Vec<(Code, &str)> {
    plugin.notes.iter().map(|note| (note.code, &*note.message)).collect()
}

/// Returns a component with a SKILL.md embedded, and nothing else.
fn component(skill_md: &str) -> Vec<u8> {
    let length = u8::try_from(1 + crate::SECTION.len() + skill_md.len()).unwrap();
    // LEB128 of a length below 16,384 in two bytes.
    let length = [length | 0x80, length >> 7];
    let name_length = u8::try_from(crate::SECTION.len()).unwrap();
    [b"\0asm\x0d\0\x01\0\0", &length[..], &[name_length], crate::SECTION.as_bytes(), skill_md.as_bytes()].concat()
}

#[test]
fn manifest_alone_is_a_package() {
    let plugin = Package::new(&manifest("minimal")).read().unwrap();
    assert_eq!(plugin.name.as_str(), "minimal");
    assert_eq!(plugin.notes.len(), 1);
    assert_eq!(plugin.notes[0].code, Code::PackageEmpty);
}

#[test]
fn folder_without_a_manifest_is_refused_with_its_parts() {
    let (code, message) = Package::bare().refusal();
    assert_eq!(
        (code, &*message),
        (Code::PackageManifestMissing, "The folder has no plugin.json, so it is not an Agent Plugin.")
    );
    let other = Package::bare().file(".claude-plugin/marketplace.json", "{}").file("agents/a.md", "");
    assert_eq!(
        other.refusal().1,
        "The folder has no plugin.json, so it is not an Agent Plugin. It has '.claude-plugin/', 'agents/', which Patchbay does not load."
    );
    let linked = Package::bare().link("plugin.json", "/etc/hostname");
    assert_eq!(linked.refusal().0, Code::PackageFileRefused);
    assert_eq!(Package::bare().file("plugin.json/x", "").refusal().0, Code::PackageManifestInvalid);
    assert_eq!(Package::bare().file("plugin.json", "{").refusal().0, Code::PackageManifestInvalid);
    let large = Package::bare().file("plugin.json", &" ".repeat(MANIFEST_BYTES as usize + 1));
    assert_eq!(
        large.refusal(),
        (Code::PackageManifestInvalid, "plugin.json cannot be read: over 262144 bytes.".to_owned())
    );
}

#[test]
fn only_direct_children_with_exactly_skill_md_are_skills() {
    let plugin = Package::new(&manifest("p"))
        .skill("b")
        .skill("a")
        .file("skills/nested/deeper/SKILL.md", "---\n---\n")
        .file("skills/lower/skill.md", "---\n---\n")
        .file("skills/README.md", "")
        .file("skills/a/references/x.md", "")
        .file("SKILL.md", "---\n---\n")
        .read()
        .unwrap();
    assert_eq!(parts(&plugin), (vec!["a", "b"], vec![], vec![]));
    assert_eq!(plugin.skills[0].path, "skills/a");
    assert_eq!(plugin.notes, []);
}

#[test]
fn bad_skill_costs_itself() {
    let plugin = Package::new(&manifest("p"))
        .skill("good")
        .file("skills/tolerated/SKILL.md", "---\nversion: 1\nargument-hint: x\nunknown: [1]\n---\n")
        .file("skills/unclosed/SKILL.md", "---\nname: unclosed\n")
        .file("skills/renamed/SKILL.md", "---\nname: other\n---\n")
        .file("skills/No.Name/SKILL.md", "---\n---\n")
        .read()
        .unwrap();
    let bad =
        vec![("No.Name", Code::InvalidName), ("renamed", Code::InvalidName), ("unclosed", Code::MalformedFrontmatter)];
    assert_eq!(parts(&plugin), (vec!["good", "tolerated"], bad, vec![]));
}

#[test]
fn skills_may_be_links_inside() {
    let package = Package::new(&manifest("p")).file("shared/a/SKILL.md", "---\nname: a\n---\n").skill("b");
    let plugin = package.link("skills/a", "../shared/a").read().unwrap();
    assert_eq!(parts(&plugin), (vec!["a", "b"], vec![], vec![]));
    let package = Package::new(&manifest("p")).skill("b").link("skills/out", "/etc");
    assert_eq!(package.refusal().0, Code::PackageFileRefused);
}

#[test]
fn too_many_skills_are_refused() {
    let mut package = Package::new(&manifest("p"));
    for number in 0..SKILLS {
        package = package.skill(&format!("s{number}"));
    }
    assert_eq!(package.read().unwrap().skills.len(), SKILLS);
    assert_eq!(package.skill("one-more").refusal().0, Code::PackageLimit);
}

#[test]
fn component_with_the_whole_skill_is_the_skill() {
    let whole = "---\nname: a\nsummary: Short\ncommand: go\n---\nDo a.\n";
    let package = Package::new(&manifest("p")).skill("a");
    let file = package.0.path().join("skills/a/a.wasm");
    fs::write(&file, component(whole)).unwrap();
    let plugin = package.read().unwrap();
    assert_eq!(plugin.skills[0].path, "skills/a/a.wasm");
    let candidate = plugin.skills[0].found.candidate.as_ref().unwrap();
    assert_eq!((&*candidate.manifest.summary, candidate.manifest.command.is_some()), ("Short", true));

    fs::write(&file, component(&whole.replace("Do a.", "Do b."))).unwrap();
    let plugin = package.read().unwrap();
    let problem = plugin.skills[0].found.candidate.as_ref().unwrap_err();
    assert_eq!(problem.code, Code::PackageTextsDiffer);
    assert_eq!(
        problem.message,
        "The instructions in 'a.wasm' differ from the SKILL.md beside it. Build the package again with 'patchbay plugin build'."
    );

    // Without an embedded SKILL.md, the component belongs to the folder's skill.
    fs::write(&file, b"\0asm\x0d\0\x01\0").unwrap();
    let plugin = package.read().unwrap();
    assert_eq!(plugin.skills[0].path, "skills/a");
    assert_eq!(plugin.skills[0].found.candidate.as_ref().unwrap().manifest.summary, "Does a.");

    fs::write(&file, b"text").unwrap();
    assert_eq!(parts(&package.read().unwrap()).1, [("a", Code::InvalidComponent)]);
}

#[test]
fn servers_fail_without_the_skills() {
    let package = || Package::new(&manifest("p")).skill("a");
    let one = json!({"s": {"type": "stdio", "command": "x"}, "bad": {"type": "stdio"}});
    let plugin = package().servers(&one).read().unwrap();
    assert_eq!(parts(&plugin), (vec!["a"], vec![], vec!["s"]));
    assert_eq!(plugin.notes.iter().map(|note| note.code).collect::<Vec<_>>(), [Code::PackageServerInvalid]);

    for bad in [
        package().file("mcp.json", "["),
        package().file("mcp.json", r#"{"mcpServers": {}}"#),
        package().file("mcp.json", &" ".repeat(MANIFEST_BYTES as usize + 1)),
    ] {
        let plugin = bad.read().unwrap();
        assert_eq!(parts(&plugin), (vec!["a"], vec![], vec![]));
        assert_eq!(plugin.notes.iter().map(|note| note.code).collect::<Vec<_>>(), [Code::PackageServersInvalid]);
    }
}

#[test]
fn own_entry_is_skipped() {
    let own = PackageServer::own_entry("${PLUGIN_ROOT}");
    let other = PackageServer::own_entry("${PLUGIN_ROOT}/x");
    let plugin = Package::new(&manifest("p")).skill("a").servers(&json!({"p": own, "other": other})).read().unwrap();
    assert_eq!(parts(&plugin), (vec!["a"], vec![], vec!["other"]));
    assert_eq!(plugin.notes, []);
}

#[test]
fn place_of_another_kind_costs_its_parts() {
    let plugin =
        Package::new(&manifest("p")).file("skills", "").servers(&json!({"s": {"type": "stdio", "command": "x"}}));
    let plugin = plugin.read().unwrap();
    assert_eq!(parts(&plugin), (vec![], vec![], vec!["s"]));
    assert_eq!(notes(&plugin), [(Code::PackagePartUnused, "'skills' is not used: it is not a folder.")]);
    let plugin = Package::new(&manifest("p")).skill("a").file("mcp.json/x", "").read().unwrap();
    assert_eq!(parts(&plugin), (vec!["a"], vec![], vec![]));
    assert!(notes(&plugin).contains(&(Code::PackagePartUnused, "'mcp.json' is not used: it is not a file.")));
}

/// One skill and one remote server, like context7.
#[test]
fn documentation_server_with_one_skill() {
    let plugin = Package::new(&json!({
        "$schema": SpecVersion::V1_0.schema("plugin"), "name": "library-docs", "version": "1.0.0",
        "author": {"name": "Docs"}, "keywords": ["documentation"],
    }))
    .skill("library-docs")
    .servers(&json!({"docs": {"type": "streamable-http", "url": "https://mcp.docs.example/mcp"}}))
    .file("README.md", "# Docs")
    .read()
    .unwrap();
    assert_eq!(parts(&plugin), (vec!["library-docs"], vec![], vec!["docs"]));
    assert_eq!(plugin.notes, []);
}

/// Many skills with references, a server that a package runner fetches, and hooks in the data of another client, like aws-core.
#[test]
fn cloud_plugin_with_skills_and_hooks() {
    let mut package = Package::new(&json!({
        "$schema": SpecVersion::V1_0.schema("plugin"), "name": "cloud-core",
        "extensions": {"com.anthropic.claude-code": {"hooks": "./com.anthropic.claude-code/hooks.json"}},
    }))
    .servers(&json!({"cloud": {"type": "stdio", "command": "uvx", "args": ["mcp-proxy@1.6.4", "https://cloud.example/mcp"]}}))
    .file("com.anthropic.claude-code/hooks.json", "{}");
    for number in 0..21 {
        let name = format!("cloud-{number}");
        let skill_md = format!("---\nname: {name}\ndescription: Cloud.\nversion: 1\n---\nRead references/guide.md.\n");
        package = package
            .file(&format!("skills/{name}/SKILL.md"), &skill_md)
            .file(&format!("skills/{name}/references/guide.md"), "Guide.")
            .file(&format!("skills/{name}/scripts/run.py"), "print()");
    }
    let plugin = package.read().unwrap();
    let (good, bad, servers) = parts(&plugin);
    assert_eq!((good.len(), bad.len(), servers), (21, 0, vec!["cloud"]));
    assert_eq!(plugin.files.len(), 2 + 1 + 3 * 21);
    assert_eq!(
        notes(&plugin),
        [
            (Code::PackagePartUnused, "'com.anthropic.claude-code/' is not used: files of another client."),
            (
                Code::PackagePartUnused,
                "'extensions.com.anthropic.claude-code' is not used: settings of another client."
            ),
        ]
    );
}

/// Claude Code's files beside an Agent Plugin, like the agent plugins of AWS.
#[test]
fn claude_plugin_with_commands() {
    let plugin = Package::new(&manifest("devops"))
        .skill("review")
        .file(".claude-plugin/plugin.json", r#"{"name": "devops", "commands": "./commands"}"#)
        .file("commands/deploy.md", "Deploy $ARGUMENTS")
        .file("agents/reviewer.md", "You review.")
        .file("hooks/hooks.json", r#"{"hooks": {"SessionStart": []}}"#)
        .file(".mcp.json", r#"{"mcpServers": {"x": {"command": "npx"}}}"#)
        .read()
        .unwrap();
    assert_eq!(parts(&plugin), (vec!["review"], vec![], vec![]));
    assert_eq!(
        notes(&plugin),
        [
            (Code::PackagePartUnused, "'.claude-plugin/' is not used: data of Claude Code."),
            (Code::PackagePartUnused, "'.mcp.json' is not used: MCP servers in another form than mcp.json."),
            (Code::PackagePartUnused, "'agents/' is not used: agents of other clients."),
            (Code::PackagePartUnused, "'commands/' is not used: commands of other clients."),
            (Code::PackagePartUnused, "'hooks/' is not used: hooks of other clients."),
        ]
    );
}

/// A repository with an index of plugins, like Anthropic's directory.
#[test]
fn marketplace_lists_its_plugins() {
    let sha = "89abcdef0123456789abcdef0123456789abcdef";
    let package = Package::bare()
        .file(
            ".claude-plugin/marketplace.json",
            &json!({
                "name": "directory", "owner": {"name": "Directory"},
                "plugins": [
                    {"name": "inside", "description": "Here.", "source": "./plugins/inside", "category": "development"},
                    {"name": "remote", "source": {"source": "url", "url": "https://git.example/x.git", "sha": sha}},
                ],
            })
            .to_string(),
        )
        .file("plugins/inside/plugin.json", &manifest("inside").to_string())
        .file("plugins/inside/skills/a/SKILL.md", "---\nname: a\n---\n");
    assert_eq!(package.refusal().0, Code::PackageManifestMissing);
    let marketplace = read_marketplace(package.0.path()).unwrap().unwrap();
    let commands: Vec<_> = marketplace.plugins.iter().flat_map(|plugin| plugin.commands(".")).collect();
    assert_eq!(
        commands,
        [
            "patchbay plugin add ./plugins/inside",
            "git clone https://git.example/x.git remote",
            &format!("git -C remote checkout {sha}"),
            "patchbay plugin add ./remote",
        ]
    );
    let inside = AgentPlugin::read(&package.0.path().join("plugins/inside")).unwrap();
    assert_eq!(parts(&inside).0, ["a"]);
}

/// Manifest and servers are in the source tree, but skills only exist after a build, like in Sentry's plugin.
#[test]
fn skills_that_come_with_a_build() {
    let source = Package::new(&manifest("monitoring")).file("build.sh", "cp -r ../skills .").file("README.md", "");
    let plugin = source.read().unwrap();
    assert_eq!(
        notes(&plugin),
        [(
            Code::PackageEmpty,
            "The folder has no skills and no usable MCP servers. If the project has a build, run it and add its output."
        )]
    );
    let built = source.skill("issues").servers(&json!({"s": {"type": "streamable-http", "url": "https://m.example"}}));
    let plugin = built.read().unwrap();
    assert_eq!(parts(&plugin), (vec!["issues"], vec![], vec!["s"]));
    assert_eq!(plugin.notes, []);
}

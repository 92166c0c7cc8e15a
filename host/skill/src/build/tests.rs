//! Tests of `build`: precedence, trust, aliases, required tools, limits, stored snapshots.

use std::{fs, io, path::Path};

use patchbay_command::Aliases as _;
use patchbay_core::{Bound, RootAllowance};
use proptest::prelude::*;

use super::*;
use crate::{BundledSkill, Diff, FileStorage, FileTotals, NoCache, ShownRank, SkillFiles, bundled, source::FileSource};

struct FakePlatform;

impl Platform for FakePlatform {
    fn os(&self) -> &str {
        "linux"
    }
    fn has_env(&self, name: &str) -> bool {
        name == "HOME"
    }
    fn has_binary(&self, name: &str) -> bool {
        name == "git"
    }
}

fn found(root: Root, name: &str, frontmatter: &str) -> FoundSkill {
    let skill_md = format!("---\n{frontmatter}\n---\nDo {name}.");
    let parsed: Name = name.parse().unwrap();
    let candidate = crate::Manifest::parse(&skill_md, &parsed).map(|read| {
        // A frontmatter with `# has` gets a component, whose digest identifies its tools.
        let component = frontmatter.contains("# has ").then(|| Component::in_memory(frontmatter.to_owned()));
        let mut files = BTreeMap::from([("SKILL.md".to_owned(), Digest::of(skill_md.as_bytes()))]);
        files.extend(component.as_ref().map(|component| ("x.wasm".to_owned(), component.digest())));
        Candidate {
            name: parsed,
            manifest: read.manifest.into(),
            files: SkillFiles::new(&files),
            component,
            instructions: Some(read.instructions.into()),
            notes: read.mended,
            totals: FileTotals::none(FileStorage::Nowhere),
            root_path: None,
            source: FileSource::NoPack,
            folder_id: None,
        }
    });
    FoundSkill { label: name.to_owned(), root, candidate }
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.parse().unwrap(),
        description: String::new(),
        input_schema: serde_json::json!({}),
        extra: vec![],
    }
}

fn snapshot_of(found: Vec<FoundSkill>, trusted: bool) -> Snapshot {
    snapshot_within(found, trusted, &RootLimits::default())
}

fn snapshot_within(found: Vec<FoundSkill>, trusted: bool, limits: &RootLimits) -> Snapshot {
    // `# has x y` in a frontmatter: the component has the tools x and y.
    let tools: BTreeMap<Digest, Arc<[ToolSpec]>> = found
        .iter()
        .filter_map(|found| found.candidate.as_ref().ok()?.component.as_ref())
        .map(|component| {
            let text = String::from_utf8(component.bytes().unwrap().to_vec()).unwrap();
            let (_, names) = text.split_once("# has ").unwrap();
            (component.digest(), names.lines().next().unwrap().split_whitespace().map(tool).collect())
        })
        .collect();
    let rules = SnapshotRules {
        trusted,
        reserved: &["skills", "help", "fork"],
        internal_tools: &["use_skill"],
        limits,
        platform: &FakePlatform,
        tools: &|digest| match tools[digest].iter().find(|tool| tool.name.as_str() == "broken") {
            Some(_) => Err(Problem::new(Code::InvalidComponent, "broken.")),
            None => Ok(tools[digest].clone()),
        },
    };
    build(&found, 1, &rules)
}

fn discover(root: Root, path: &Path) -> io::Result<Vec<FoundSkill>> {
    Ok(crate::discover(root, path, &NoCache, &RootAllowance::default())?.found)
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.skills().map(|skill| skill.name.as_str()).collect()
}

fn diagnostics(snapshot: &Snapshot) -> Vec<String> {
    snapshot.diagnostics().iter().map(|d| format!("{} [{}] {}", d.name, d.code, d.message)).collect()
}

#[test]
fn highest_root_wins_without_fallback() {
    let three = |workspace: &str| {
        vec![
            found(Root::Bundled, "a", "summary: bundled"),
            found(Root::User, "a", "summary: user"),
            found(Root::Workspace, "a", workspace),
        ]
    };
    let snapshot = snapshot_of(three("summary: workspace"), true);
    assert_eq!(snapshot.skill("a").unwrap().manifest.summary, "workspace");
    let snapshot = snapshot_of(three("eligibility: {os: [darwin]}"), true);
    assert_eq!(names(&snapshot), [""; 0]);
    assert_eq!(diagnostics(&snapshot), ["a [ineligible] OS 'linux' not in [darwin]."]);
    // An unreadable skill does not hide a skill of a lower root.
    let snapshot = snapshot_of(three("summary: ["), true);
    assert_eq!(snapshot.skill("a").unwrap().manifest.summary, "user");
    assert_eq!(snapshot.diagnostics().len(), 1);
}

#[test]
fn untrusted_workspace_takes_no_name_and_no_alias() {
    let all = || {
        vec![
            found(Root::Bundled, "notes", "command: note"),
            found(Root::Workspace, "notes", "summary: thief"),
            found(Root::Workspace, "thief", "command: note"),
            found(Root::Workspace, "fine", "command: fine"),
        ]
    };
    let snapshot = snapshot_of(all(), false);
    assert_eq!(names(&snapshot), ["fine", "notes"]);
    assert_eq!(snapshot.skill("notes").unwrap().root, Root::Bundled);
    let codes: Vec<_> = snapshot.diagnostics().iter().map(|d| (d.name.as_str(), d.code)).collect();
    assert_eq!(codes, [("notes", Code::UntrustedShadow), ("thief", Code::UntrustedShadow)]);
    assert_eq!(names(&snapshot_of(all(), true)), ["fine", "notes", "thief"]);
}

#[test]
fn untrusted_workspace_calls_its_own_tools_only() {
    let all = || {
        vec![
            found(Root::Bundled, "notes", "version: 1 # has add"),
            found(Root::Workspace, "lends", "invocation_mode: tool_dispatch\ncommand_tool: notes__add"),
            found(Root::Workspace, "own", "invocation_mode: tool_dispatch\ncommand_tool: own__x # has x"),
            found(Root::Workspace, "needs", "requires_tools: [notes__add]"),
        ]
    };
    let untrusted = snapshot_of(all(), false);
    assert_eq!(names(&untrusted), ["needs", "notes", "own"]);
    assert_eq!(
        diagnostics(&untrusted),
        ["lends [command_tool_missing] Command tool 'notes__add' belongs to another skill. The workspace is not \
             trusted, so its skills can only call their own tools. To trust it: patchbay trust add DIR"]
    );
    assert_eq!(names(&snapshot_of(all(), true)), ["lends", "needs", "notes", "own"]);
}

#[test]
fn highest_root_wins_an_alias() {
    let snapshot = snapshot_of(
        vec![
            found(Root::Bundled, "b", "command: go"),
            found(Root::User, "a", "command: go"),
            found(Root::Bundled, "c", "command: do"),
            found(Root::User, "d", "command: do"),
            found(Root::User, "e", "command: do"),
        ],
        true,
    );
    assert_eq!(names(&snapshot), ["a", "b", "c", "d", "e"]);
    assert_eq!(snapshot.claimants("go").iter().map(Name::as_str).collect::<Vec<_>>(), ["a"]);
    assert_eq!(snapshot.claimants("do").len(), 2);
    assert_eq!(
        diagnostics(&snapshot),
        [
            "b [alias_shadowed] Alias '/go' belongs to the user skill 'a'.",
            "c [alias_shadowed] Alias '/do' belongs to the user skills d, e.",
            "d [alias_ambiguous] Alias '/do' is claimed by d, e; it works for none, '/skill NAME' does.",
            "e [alias_ambiguous] Alias '/do' is claimed by d, e; it works for none, '/skill NAME' does.",
        ]
    );
}

#[test]
fn root_over_its_tools_keeps_the_first_skills() {
    let limits = |own| RootLimits { tools: Bound { own, untrusted: 1 }, ..RootLimits::default() };
    let all = || {
        vec![
            found(Root::Bundled, "z", "version: 1 # has a b c d"),
            found(Root::User, "a", "version: 1 # has x"),
            found(Root::User, "b", "version: 2 # has x y"),
            found(Root::User, "c", "summary: text"),
            found(Root::Workspace, "d", "version: 3 # has x"),
            found(Root::Workspace, "e", "version: 4 # has x"),
        ]
    };
    let snapshot = snapshot_within(all(), false, &limits(2));
    assert_eq!(names(&snapshot), ["a", "d", "z"]);
    assert_eq!(
        diagnostics(&snapshot),
        [
            "b [root_limit] The user skills exceed the limit of 2 (limits.root.tools).",
            "e [root_limit] The workspace skills exceed the limit of 1 (limits.root.tools).",
        ]
    );
    assert_eq!(names(&snapshot_within(all(), true, &limits(3))), ["a", "b", "c", "d", "e", "z"]);
}

#[test]
fn format_1_snapshot_keeps_its_rules() {
    let body = r#"{"skills":{"a":{"name":"a","root":"bundled","manifest":{"summary":"","version":null,"invocation_mode":"llm_orchestration","command":"go","input_hint":null,"command_tool":null,"requires_tools":[],"eligibility":{"os":[],"env":[],"binaries":[]},"capabilities":[],"instructions":"Do a."},"component":null,"tools":[],"digest":"sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},"b":{"name":"b","root":"user","manifest":{"summary":"","version":null,"invocation_mode":"llm_orchestration","command":"go","input_hint":null,"command_tool":null,"requires_tools":[],"eligibility":{"os":[],"env":[],"binaries":[]},"capabilities":[],"instructions":"Do b."},"component":null,"tools":[],"digest":"sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"}},"diagnostics":[]}"#;
    let digest = Digest::of(body.as_bytes());
    let snapshot = Snapshot::from_json(body.to_owned(), digest, 3).unwrap();
    assert_eq!((snapshot.to_json(), snapshot.digest(), snapshot.version()), (body, digest, 3));
    // In format 1, an alias that two skills claim works for neither, even if their roots differ.
    assert_eq!(snapshot.claimants("go").len(), 2);
    let skill = snapshot.skill("a").unwrap();
    assert_eq!(&**snapshot.text(&skill.manifest.instructions.digest).unwrap(), "Do a.");
    assert!(!skill.digest_of_files);
    let newer = r#"{"format":6,"anything":true}"#;
    let error = Snapshot::from_json(newer.to_owned(), Digest::of(newer.as_bytes()), 1).unwrap_err();
    assert_eq!(error.to_string(), "this session was written by a newer Patchbay.");
}

#[test]
fn each_reason_for_exclusion_has_a_diagnostic() {
    let snapshot = snapshot_of(
        vec![
            found(Root::User, "env", "eligibility: {env: [A, HOME, B]}"),
            found(Root::User, "binaries", "eligibility: {binaries: [git, nope]}"),
            found(Root::User, "collision", "command: skills"),
            found(Root::User, "reserved", "command: fork"),
            found(Root::User, "internal", "requires_tools: [use_skill]"),
            found(Root::User, "ends_", "invocation_mode: tool_dispatch\ncommand_tool: run # has run"),
            found(Root::User, "calls-ends", "requires_tools: [ends___run]"),
            found(Root::User, "no-tool", "invocation_mode: tool_dispatch"),
            found(Root::User, "wrong-tool", "command_tool: x # has a b"),
            found(Root::User, "full-name", "command_tool: missing__x"),
            found(Root::User, "broken", "version: 1 # has broken"),
            found(Root::User, "needs-a", "requires_tools: [needs-b__x] # has y"),
            found(Root::User, "needs-b", "requires_tools: [gone__z] # has x"),
            found(Root::User, "long", &format!("version: 1 # has {}", "t".repeat(60))),
            found(Root::User, "find", "version: 1"),
            found(Root::User, "mcp", "version: 1 # has x"),
            found(Root::User, "terminal", "version: 1 # has run"),
            found(Root::User, "good", "requires_tools: [good__x] # has x"),
        ],
        true,
    );
    assert_eq!(names(&snapshot), ["calls-ends", "ends_", "find", "good", "internal"]);
    assert_eq!(snapshot.tool("ends___run").unwrap().0.name.as_str(), "ends_");
    assert_eq!(
        diagnostics(&snapshot),
        [
            "binaries [ineligible] Missing binaries: nope.",
            "broken [invalid_component] broken.",
            "collision [command_alias_collision] Alias '/skills' is a built-in command; skill excluded.",
            "env [ineligible] Missing environment: A, B.",
            "full-name [command_tool_missing] Command tool 'missing__x' is not a tool of the snapshot.",
            &format!("long [invalid_name] 'long__{}' is longer than 64 characters.", "t".repeat(60)),
            "mcp [invalid_name] 'mcp' is reserved: a program of 'code' could not call its tools. Give the skill another name.",
            "needs-a [missing_required_tools] Missing required tool: needs-b__x.",
            "needs-b [missing_required_tools] Missing required tool: gone__z.",
            "no-tool [command_tool_missing] invocation_mode is tool_dispatch, but no command_tool is set.",
            "reserved [command_alias_collision] Alias '/fork' is a built-in command; skill excluded.",
            "terminal [invalid_name] 'terminal' is reserved: 'terminal__run' is the tool of an editor's terminal. Give the skill another name.",
            "wrong-tool [command_tool_missing] Command tool 'x' is not among the skill's tools: a, b.",
        ]
    );
}

#[test]
fn excluded_skill_names_the_limit_of_its_files() {
    let mut cut = found(Root::User, "a", "command_tool: x");
    cut.candidate.as_mut().unwrap().notes.push(crate::listing::cut("a.wasm"));
    let mut other = found(Root::User, "b", "eligibility: {os: darwin}");
    other.candidate.as_mut().unwrap().notes.push(Problem::new(Code::SkillFileSkipped, "left out."));
    assert_eq!(
        diagnostics(&snapshot_of(vec![cut, other], true)),
        [
            "a [command_tool_missing] Command tool 'x' needs a component, but the skill's folder has none (*.wasm). \
             To build one: \
             patchbay plugin build DIR",
            "a [skill_files_limited] More than 10,000 entries in its folder; the skill's files cannot be read, except a component with \
             the name 'a.wasm'.",
            "b [ineligible] OS 'linux' not in [darwin].",
        ]
    );
}

#[test]
fn ambiguous_alias_works_for_neither_skill() {
    let snapshot =
        snapshot_of(vec![found(Root::User, "b", "command: go"), found(Root::User, "a", "command: go")], true);
    assert_eq!(names(&snapshot), ["a", "b"]);
    assert_eq!(snapshot.claimants("go").len(), 2);
    assert_eq!(
        diagnostics(&snapshot),
        ["a", "b"].map(|name| format!(
            "{name} [alias_ambiguous] Alias '/go' is claimed by a, b; it works for none, '/skill NAME' does."
        ))
    );
}

/// Returns each working command with its skill.
fn commands(snapshot: &Snapshot) -> Vec<String> {
    let working = snapshot.aliases().filter(|(_, skills)| skills.len() == 1);
    working.map(|(alias, skills)| format!("{alias}={}", skills[0])).collect()
}

#[test]
fn skill_without_tools_is_called_by_its_name() {
    let all = |trusted| {
        let all = vec![
            found(Root::User, "review", "summary: text"),
            found(Root::User, "other", "command: go"),
            found(Root::User, "tools", "version: 1 # has x"),
            found(Root::User, "hidden", "user-invocable: false"),
            found(Root::User, "help", "summary: a reserved name"),
            found(Root::Workspace, "plan", "summary: text"),
        ];
        snapshot_of(all, trusted)
    };
    assert_eq!(commands(&all(true)), ["go=other", "other=other", "plan=plan", "review=review"]);
    assert_eq!(commands(&all(false)), ["go=other", "other=other", "review=review"]);
    assert_eq!((diagnostics(&all(true)), names(&all(true)).len()), (vec![], 6));
}

#[test]
fn alias_takes_precedence_over_a_name() {
    let named = || found(Root::Workspace, "review", "summary: text");
    let claims = |name, root| found(root, name, "command: review # has x");
    let snapshot = snapshot_of(vec![named(), claims("a", Root::Bundled)], true);
    assert_eq!((commands(&snapshot), names(&snapshot).len()), (vec!["review=a".to_owned()], 2));
    assert_eq!(diagnostics(&snapshot), [""; 0]);
    // An untrusted workspace cannot take over a command.
    let all = |trusted| {
        let claims = claims("thief", Root::Workspace);
        snapshot_of(vec![found(Root::User, "review", "summary: text"), claims], trusted)
    };
    assert_eq!((commands(&all(true)), diagnostics(&all(true))), (vec!["review=thief".to_owned()], vec![]));
    assert_eq!((commands(&all(false)), names(&all(false)).len()), (vec!["review=review".to_owned()], 2));
    let stays = "thief [untrusted_shadow] The workspace is not trusted, so '/review' still runs the skill 'review'. \
        To trust it: patchbay trust add DIR";
    assert_eq!(diagnostics(&all(false)), [stays]);
    // An ambiguous alias stays ambiguous.
    let snapshot = snapshot_of(vec![named(), claims("a", Root::User), claims("b", Root::User)], true);
    assert_eq!((commands(&snapshot), snapshot.claimants("review").len()), (vec![], 2));
}

#[test]
fn format_3_snapshot_has_no_commands_by_name() {
    let new =
        snapshot_of(vec![found(Root::User, "review", "summary: text"), found(Root::User, "b", "command: go")], true);
    let named = r#""called_by_name":["b","review"],"#;
    assert_eq!(commands(&new), ["b=b", "go=b", "review=review"]);
    let stored = new.to_json().replace(r#"{"format":4,"#, r#"{"format":3,"#).replace(named, "");
    assert_eq!(stored.len(), new.to_json().len() - named.len());
    let old = Snapshot::from_json(stored.clone(), Digest::of(stored.as_bytes()), 1).unwrap();
    assert_eq!((old.to_json(), commands(&old)), (&*stored, vec!["go=b".to_owned()]));
    assert!(old.skills().eq(new.skills()));
    // A reload does not report any skill as changed.
    assert_eq!(Diff::between(&old, &new), Diff::default());
}

#[test]
fn stored_snapshot_is_loaded_and_damaged_one_refused() {
    let mut snapshot = snapshot_of(vec![found(Root::User, "a", "command: go # has x")], true);
    let back = Snapshot::from_json(snapshot.to_json().to_owned(), snapshot.digest(), 7).unwrap();
    assert_eq!((back.digest(), back.version()), (snapshot.digest(), 7));
    assert_eq!(back.skill("a"), snapshot.skill("a"));
    assert!(back.tool("a__x").is_some());
    assert!(!snapshot.to_json().contains("Do a."), "the JSON has no instructions");
    assert!(snapshot.take_texts().into_values().any(|text| &*text == "Do a."));
    let damaged = snapshot.to_json().replace("a__x", "b__x").replace("go", "no");
    assert!(Snapshot::from_json(damaged, snapshot.digest(), 1).is_err());
}

#[test]
fn diff_lists_added_removed_and_changed_skills() {
    let old = snapshot_of(
        vec![found(Root::User, "a", ""), found(Root::User, "b", ""), found(Root::User, "c", "summary: 1")],
        true,
    );
    let new = snapshot_of(
        vec![found(Root::User, "b", ""), found(Root::User, "c", "summary: 2"), found(Root::User, "d", "")],
        true,
    );
    let diff = Diff::between(&old, &new);
    let text = |names: &[Name]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        (text(&diff.added), text(&diff.removed), text(&diff.changed)),
        (vec!["d".into()], vec!["a".into()], vec!["c".into()])
    );
}

#[test]
fn discovery_reports_each_invalid_child() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("skills");
    let write = |path: &str, text: &[u8]| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("good/SKILL.md", b"---\nsummary: x\n---\n");
    write("good/notes.txt", b"ignored");
    write("empty/readme.txt", b"");
    write("latin/SKILL.md", b"---\nsummary: \xff\n---\n");
    write("two/SKILL.md", b"---\n---\n");
    write("two/a.wasm", b"\0asm");
    write("two/b.wasm", b"\0asm");
    write("text.wasm", b"hello");
    write("cut.wasm", b"\0asm\x0d\0");
    write("bare.wasm", &empty_component());
    write("both/SKILL.md", b"---\n---\n");
    write("both.wasm", &empty_component());
    write("Upper/SKILL.md", b"---\n---\n");
    write("big/SKILL.md", &vec![b'a'; 300 << 10]);
    write(".hidden/SKILL.md", b"---\n---\n");
    write("stray.txt", b"");
    let snapshot = snapshot_of(discover(Root::User, &root).unwrap(), true);
    assert_eq!(names(&snapshot), ["good"]);
    let codes: Vec<_> = snapshot.diagnostics().iter().map(|d| (d.name.as_str(), d.code)).collect();
    assert_eq!(
        codes,
        [
            ("Upper", Code::InvalidName),
            ("bare", Code::MissingSkillMd),
            ("big", Code::MissingSkillMd),
            ("both", Code::SeveralComponents),
            ("cut", Code::InvalidComponent),
            ("empty", Code::MissingSkillMd),
            ("latin", Code::MalformedFrontmatter),
            ("text", Code::InvalidComponent),
            ("two", Code::SeveralComponents),
        ]
    );
    for diagnostic in snapshot.diagnostics() {
        assert!(!diagnostic.message.contains(home.path().to_str().unwrap()), "contains a path: {diagnostic:?}");
    }
    assert!(discover(Root::User, &home.path().join("nowhere")).unwrap().is_empty());
}

/// The smallest component: magic, version 13, layer 1.
fn empty_component() -> Vec<u8> {
    b"\0asm\x0d\0\x01\0".to_vec()
}

#[cfg(unix)]
#[test]
fn links_may_leave_the_user_root_but_not_a_workspace() {
    let home = tempfile::tempdir().unwrap();
    let elsewhere = home.path().join("elsewhere");
    let root = home.path().join(".patchbay/skills");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::create_dir_all(root.join("inner")).unwrap();
    fs::write(elsewhere.join("SKILL.md"), "---\n---\nsecret").unwrap();
    std::os::unix::fs::symlink(&elsewhere, root.join("linked")).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("SKILL.md"), root.join("inner/SKILL.md")).unwrap();
    let user = snapshot_of(discover(Root::User, &root).unwrap(), true);
    assert_eq!(names(&user), ["linked"]);
    let workspace = snapshot_of(discover(Root::Workspace, home.path()).unwrap(), true);
    assert_eq!(names(&workspace), [""; 0]);
    assert_eq!(workspace.diagnostics().len(), 2, "{:?}", workspace.diagnostics());
    let other = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(home.path().join(".patchbay"), other.path().join(".patchbay")).unwrap();
    assert!(discover(Root::Workspace, other.path()).is_err(), "the root itself is a link out of the workspace");
}

#[test]
fn bundled_skills_are_read() {
    let found = bundled(&[
        BundledSkill::new("plan", b"---\nsummary: p\n---\n"),
        BundledSkill::new("bad", &[b'\0', b'a', b's', b'm', 0x0d, 0, 1, 0]),
    ]);
    let snapshot = snapshot_of(found, true);
    assert_eq!(names(&snapshot), ["plan"]);
    assert_eq!(snapshot.diagnostics()[0].code, Code::MissingSkillMd);
}

proptest! {
    /// The JSON does not depend on the order of the candidates.
    #[test]
    fn snapshot_does_not_depend_on_candidate_order(
        skills in proptest::collection::vec((0..3usize, "[a-d]", prop_oneof!["command: [a-b]", "requires_tools: \\[[a-d]__x\\] # has x", "summary: \\["]), 0..8),
        seed in any::<u64>(),
    ) {
        let make = || {
            let roots = [Root::Bundled, Root::User, Root::Workspace];
            let mut seen = BTreeSet::new();
            skills.iter().filter(|(root, name, _)| seen.insert((*root, name.clone())))
                .map(|(root, name, front)| found(roots[*root], name, front)).collect::<Vec<_>>()
        };
        let mut other = make();
        let len = other.len().max(1);
        other.rotate_left((seed % len as u64) as usize);
        if seed % 2 == 0 { other.reverse(); }
        for trusted in [false, true] {
            let (a, b) = (snapshot_of(make(), trusted), snapshot_of(std::mem::take(&mut other).into_iter().collect(), trusted));
            prop_assert_eq!(a.to_json(), b.to_json());
            other = make();
        }
    }
}

#[test]
fn check_skill_agrees_with_build() {
    let rules = SnapshotRules {
        trusted: true,
        reserved: &["skills", "help"],
        internal_tools: &[],
        limits: &RootLimits::default(),
        platform: &FakePlatform,
        tools: &|_| Ok(Arc::from([tool("run")])),
    };
    for frontmatter in [
        "summary: x",
        "command: skills",
        "command: go",
        "invocation_mode: tool_dispatch",
        "invocation_mode: tool_dispatch\ncommand_tool: run\n# has run",
        "invocation_mode: tool_dispatch\ncommand_tool: walk\n# has run",
        "invocation_mode: tool_dispatch\ncommand_tool: a__walk\n# has run",
        "requires_tools: [a__walk]\n# has run",
        "requires_tools: [a__run]\n# has run",
    ] {
        let found = found(Root::User, "a", frontmatter);
        let alone = check_skill(Root::User, found.candidate.as_ref().unwrap(), &rules);
        let alone = alone.map_err(|problem| format!("a [{}] {}", problem.code, problem.message));
        assert_eq!(diagnostics(&build(&[found], 1, &rules)), Vec::from_iter(alone.err()), "{frontmatter}");
    }
    // Requirements on the environment are reported, but are not errors.
    let elsewhere = found(Root::User, "a", "requires_tools: [b__x]\ncommand_tool: c__y\neligibility: {os: [darwin]}");
    let alone = check_skill(Root::User, elsewhere.candidate.as_ref().unwrap(), &rules).unwrap();
    assert_eq!(Vec::from_iter(&alone.needs), ["b__x", "c__y"]);
    assert_eq!(alone.ineligible.as_deref(), Some("OS 'linux' not in [darwin]."));
}

#[test]
fn snapshot_knows_in_which_order_models_are_shown_skills() {
    let all =
        || vec![found(Root::User, "mine", ""), found(Root::Workspace, "ours", ""), found(Root::Bundled, "notes", "")];
    let rank = |snapshot: &Snapshot, name: &str| snapshot.shown_rank(snapshot.skill(name).unwrap());
    let (trusted, untrusted) = (snapshot_of(all(), true), snapshot_of(all(), false));
    assert_eq!(rank(&trusted, "ours"), ShownRank::TrustedWorkspace);
    assert_eq!(rank(&untrusted, "ours"), ShownRank::UntrustedWorkspace);
    assert!(rank(&trusted, "mine") < rank(&trusted, "ours") && rank(&trusted, "ours") < rank(&trusted, "notes"));
    // Both trust and the ranking of searches are stored.
    let stored = Snapshot::from_json(trusted.to_json().to_owned(), trusted.digest(), 1).unwrap();
    assert_eq!(rank(&stored, "ours"), ShownRank::TrustedWorkspace);
    assert!(trusted.to_json().contains(r#""ranking":1"#));
    // Without workspace skills, trust does not change the snapshot.
    let own = |trusted| snapshot_of(vec![found(Root::User, "mine", "")], trusted).digest();
    assert_eq!(own(true), own(false));
}

#[test]
fn snapshot_says_why_files_of_a_skill_cannot_be_read() {
    let words = "More than 1,000 files; the skill's files cannot be read.";
    let mut limited = found(Root::User, "a", "summary: x");
    limited.candidate.as_mut().unwrap().notes.push(Problem::new(Code::SkillFilesLimited, words));
    let mut stored = found(Root::User, "b", "summary: x");
    stored.candidate.as_mut().unwrap().totals.place = FileStorage::Pack;
    let snapshot = snapshot_of(vec![limited, stored], true);
    let problem = |name: &str| snapshot.files_problem(snapshot.skill(name).unwrap());
    assert_eq!((problem("a"), problem("b")), (Some(words), None));
}

fn packaged(package: &str, name: &str, frontmatter: &str) -> FoundSkill {
    let mut found = found(Root::Package, name, frontmatter);
    found.candidate.as_mut().unwrap().root_path = Some(package.into());
    found
}

#[test]
fn package_that_was_added_first_keeps_names_and_aliases() {
    let of_packages = vec![
        packaged("first", "greet", "command: hi"),
        packaged("second", "greet", "command: hello"),
        packaged("second", "wave", "command: hi"),
        packaged("third", "nod", "command: hi"),
    ];
    let snapshot = snapshot_of(of_packages.clone(), true);
    let owner = |name: &str| snapshot.skill(name).and_then(|skill| skill.root_path.as_deref());
    assert_eq!((owner("greet"), owner("wave"), owner("nod")), (Some("first"), Some("second"), Some("third")));
    assert_eq!(snapshot.claimants("hi"), ["greet".parse::<Name>().unwrap()]);
    assert!(snapshot.claimants("hello").is_empty());
    let codes: Vec<_> = snapshot.diagnostics().iter().map(|found| (&*found.name, found.code)).collect();
    assert_eq!(codes, [("greet", Code::NameShadowed), ("nod", Code::AliasShadowed), ("wave", Code::AliasShadowed)]);
    let message = &snapshot.diagnostics()[0].message;
    assert!(message.contains("the package 'second'") && message.contains("--rename greet=NEW"), "{message}");
    // The order in which packages were added decides, not the name. A skill's identity consists of its package and its name.
    let other: Vec<_> = of_packages.into_iter().rev().collect();
    let identity = snapshot_of(other, true).skill("greet").unwrap().identity("/work");
    assert_eq!((identity.root, &*identity.workspace), (Root::Package, "second"));
}

#[test]
fn packages_are_between_extra_roots_and_bundled_skills() {
    for (root, wins) in [(Root::Extra, Root::Package), (Root::Bundled, Root::Bundled), (Root::User, Root::User)] {
        let found = vec![packaged("tools", "greet", "summary: x"), found(root, "greet", "summary: y")];
        let snapshot = snapshot_of(found, true);
        assert_eq!(snapshot.skill("greet").unwrap().root, wins);
        let codes: Vec<_> = snapshot.diagnostics().iter().map(|found| found.code).collect();
        assert_eq!(codes, [Code::NameShadowed], "{root}");
    }
}

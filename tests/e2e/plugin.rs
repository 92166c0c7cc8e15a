//! `patchbay plugin`: `build` makes a component from a folder, and `inspect` describes it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use patchbay_tests::{
    answers::json_lines,
    binary::{Patchbay, Ran, ran},
    guest::{self, ECHO, Guest},
};
use serde_json::json;

const SKILL_MD: &str =
    "---\nname: greeter\nsummary: Greets\ninvocation_mode: tool_dispatch\ncommand: greet\ncommand_tool: run\n---\n";

/// Creates a home with a folder `greeter` and its SKILL.md.
fn with_folder() -> (Patchbay, String) {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/skills/greeter/SKILL.md", SKILL_MD);
    let folder = patchbay.home().join("config/skills/greeter").canonicalize().unwrap();
    (patchbay, folder.to_str().unwrap().to_owned())
}

/// Returns a core module with its world's metadata.
fn module() -> Vec<u8> {
    guest::module_of(&guest::contract(), &Guest::default().wat(), "patchbay:skill/skill-plugin")
}

fn assert_refused(ran: &Ran, words: &str) {
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "", &*format!("Error: {words} [build_failed]\n")));
}

#[test]
fn core_module_becomes_a_component_with_embedded_skill_md() {
    let (patchbay, folder) = with_folder();
    patchbay.write("workspace/core.wasm", module());
    let ran = patchbay.run(&["plugin", "build", &folder, "--wasm", "core.wasm"]);
    let size = fs::metadata(format!("{folder}/greeter.wasm")).unwrap().len();
    let words = format!("{folder}/greeter.wasm: {size} bytes\ntool run: Echoes its input\n  {{\"type\":\"object\"}}\n");
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), &*words, ""));
    // Both the folder itself and a single file can be installed.
    assert_eq!(patchbay.line("/greet {}"), "{}");
    fs::rename(format!("{folder}/greeter.wasm"), patchbay.home().join("config/skills/moved.wasm")).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(patchbay.home().join("config/skills/moved.wasm"), patchbay.home().join("config/skills/greeter.wasm"))
        .unwrap();
    assert_eq!(patchbay.line("/greet {}"), "{}");
}

/// `build`, `inspect`, the start of a session, and calls in two processes.
#[test]
fn component_is_compiled_once_in_a_home() {
    let (patchbay, folder) = with_folder();
    patchbay.line("/skills");
    patchbay.write("workspace/core.wasm", module());
    assert_eq!(patchbay.run(&["plugin", "build", &folder, "--wasm", "core.wasm"]).code, Some(0));
    let component = format!("{folder}/greeter.wasm");
    let digest = patchbay_core::Digest::of(&fs::read(&component).unwrap()).to_hex();
    // Compiling again would replace the file.
    let compiled = || {
        let files = fs::read_dir(patchbay.home().join("cache/aot")).unwrap().map(Result::unwrap);
        let ours = files.filter(|file| file.file_name().to_string_lossy().starts_with(&digest));
        ours.map(|file| (file.file_name(), file.metadata().unwrap().modified().unwrap())).collect::<Vec<_>>()
    };
    let built = compiled();
    assert_eq!(built.len(), 1, "{built:?}");
    assert_eq!(patchbay.run(&["plugin", "inspect", &component]).code, Some(0));
    for _ in 0..2 {
        assert_eq!(patchbay.line("/greet {}"), "{}");
    }
    assert_eq!(compiled(), built);
}

#[test]
fn kept_functions_are_private_and_checked() {
    use std::os::unix::fs::PermissionsExt as _;
    let (patchbay, folder) = with_folder();
    patchbay.line("/skills");
    patchbay.write("workspace/core.wasm", module());
    let build = || assert_eq!(patchbay.run(&["plugin", "build", &folder, "--wasm", "core.wasm"]).code, Some(0));
    build();
    let component = fs::read(format!("{folder}/greeter.wasm")).unwrap();
    let [functions, artefact] = [&b"compiled functions"[..], &component].map(|named| {
        let name = patchbay_core::Digest::of(named).to_hex();
        let files = fs::read_dir(patchbay.home().join("cache/aot")).unwrap().map(|file| file.unwrap().path());
        let mut files = files.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with(&name));
        files.next().expect("a file in the cache")
    });
    assert_eq!(functions.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let (kept, compiled) = (fs::read(&functions).unwrap(), fs::read(&artefact).unwrap());
    // The first content reuses the compiled functions. The others do not, because this host did not write them.
    for content in [&*kept, &kept[..kept.len() - 1], b"forged"] {
        fs::write(&functions, content).unwrap();
        fs::remove_file(&artefact).unwrap();
        build();
        assert!(fs::read(&artefact).unwrap() == compiled, "the compiled component differs");
        assert!(content == kept || fs::read(&functions).unwrap() != content, "damaged functions are kept");
    }
}

#[test]
fn component_is_copied_to_the_out_path() {
    let (patchbay, folder) = with_folder();
    patchbay.write("workspace/some.wasm", Guest::default().component());
    let ran = patchbay.run(&["plugin", "build", &folder, "--wasm", "some.wasm", "--out", "out/greeter.wasm"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let built = fs::read(patchbay.workspace().join("out/greeter.wasm")).unwrap();
    assert_eq!(built, Guest::default().packaged(SKILL_MD));
    assert!(!Path::new(&folder).join("greeter.wasm").exists());
}

#[test]
fn repeated_build_writes_identical_bytes() {
    let (patchbay, folder) = with_folder();
    patchbay.write("workspace/core.wasm", module());
    let build = || {
        assert_eq!(patchbay.run(&["plugin", "build", &folder, "--wasm", "core.wasm"]).code, Some(0));
        let file = PathBuf::from(&folder).join("greeter.wasm");
        (fs::read(&file).unwrap(), file.metadata().unwrap().modified().unwrap())
    };
    assert_eq!(build(), build());
}

#[test]
fn a_skill_without_tools_needs_no_build() {
    let (patchbay, folder) = with_folder();
    patchbay.write("home/config/skills/greeter/SKILL.md", "---\nsummary: Greets\n---\n");
    let ran = patchbay.run(&["plugin", "build", &folder]);
    let words = "greeter: nothing to build: the skill is only its SKILL.md.\n";
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), words, ""));
}

#[test]
fn build_validates_its_result() {
    let (patchbay, folder) = with_folder();
    patchbay.write("home/config/skills/greeter/SKILL.md", SKILL_MD.replace("command_tool: run", "command_tool: walk"));
    patchbay.write("workspace/core.wasm", module());
    let ran = patchbay.run(&["plugin", "build", &folder, "--wasm", "core.wasm"]);
    assert_eq!(ran.code, Some(1));
    let last = ran.out.lines().last().unwrap();
    assert_eq!(last, "wrong: [command_tool_missing] Command tool 'walk' is not among the skill's tools: run.");
}

/// Returns the diagnostics of `/skills` in the form of `plugin inspect`.
fn diagnostics(patchbay: &Patchbay) -> Vec<String> {
    let listed = patchbay.line("/skills");
    let lines = listed.lines().filter_map(|line| line.strip_prefix("- greeter "));
    lines.map(|line| format!("wrong: {line}")).collect()
}

#[test]
fn build_and_inspect_apply_the_checks_of_loading() {
    let mut schema = Guest::default();
    schema.tools[0].2 = "{\"type\":\"string\"}".into();
    let good = Guest::default().component();
    let trap = Guest { before_tools: "(unreachable)".into(), ..Guest::default() }.component();
    let mut long = Guest::default();
    long.tools[0].0 = "x".repeat(60);
    for (skill_md, component, code) in [
        (SKILL_MD.replace("command: greet", "command: skills"), &good, "command_alias_collision"),
        (SKILL_MD.to_owned(), &trap, "invalid_component"),
        (SKILL_MD.to_owned(), &schema.component(), "invalid_component"),
        ("---\n---\n".to_owned(), &long.component(), "invalid_name"),
    ] {
        let (patchbay, folder) = with_folder();
        patchbay.write("home/config/skills/greeter/SKILL.md", &skill_md);
        patchbay.write("workspace/some.wasm", component);
        let ran = patchbay.run(&["plugin", "build", &folder, "--wasm", "some.wasm"]);
        let wrong = |ran: &Ran| -> Vec<String> {
            ran.out.lines().filter(|line| line.starts_with("wrong: ")).map(str::to_owned).collect()
        };
        let built = wrong(&ran);
        assert!(ran.code == Some(1) && built.len() == 1 && built[0].contains(code), "{skill_md}: {ran:?}");
        assert_eq!(diagnostics(&patchbay), built, "{skill_md}");
        let inspected = patchbay.run(&["plugin", "inspect", &folder]);
        assert_eq!((inspected.code, wrong(&inspected)), (Some(1), built), "{skill_md}");
    }
    // The same without a component.
    let (patchbay, folder) = with_folder();
    patchbay.write("home/config/skills/greeter/SKILL.md", "---\ncommand: skills\n---\n");
    let ran = patchbay.run(&["plugin", "build", &folder]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.out.lines().skip(1).collect::<Vec<_>>(), diagnostics(&patchbay));
}

#[test]
fn installation_dependent_findings_are_notes() {
    let (patchbay, folder) = with_folder();
    let skill_md = "---\nrequires_tools: [other__tool]\neligibility: {os: [plan9]}\n---\n";
    patchbay.write("home/config/skills/greeter/SKILL.md", skill_md);
    let ran = patchbay.run(&["plugin", "inspect", &folder]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    let notes: Vec<_> = ran.out.lines().filter(|line| line.starts_with("note: ")).collect();
    let os = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    let ineligible = format!("note: It would not be loaded on this machine: OS '{os}' not in [plan9].");
    assert_eq!(notes, [&*ineligible, "note: It is only loaded if these tools exist: other__tool."]);
}

#[test]
fn tool_without_a_description_is_noted() {
    let patchbay = Patchbay::new();
    let mut guest = Guest::default();
    guest.tools[0].1 = String::new();
    patchbay.write("workspace/greeter.wasm", guest.packaged("---\n---\n"));
    let ran = patchbay.run(&["plugin", "inspect", "greeter.wasm"]);
    let note = "\nnote: tool 'run' has no description; models choose tools by it: ";
    assert!(ran.code == Some(0) && ran.out.matches("has no description").count() == 1, "{ran:?}");
    assert!(ran.out.contains(note), "{ran:?}");
}

#[test]
fn inspect_shows_the_last_lines_before_a_trap() {
    let patchbay = Patchbay::new();
    let body = "(call $write (i32.const 3) (i32.const 131072) (i32.const 9)) (unreachable)";
    let more = "\n(import \"patchbay:host/log@0.1.0\" \"write\" (func $write (param i32 i32 i32)))\n\
                (data (i32.const 131072) \"no\\1b[2Jconf\")\n";
    let guest = Guest { before_tools: body.into(), ..Guest::default() }.with(more);
    patchbay.write("workspace/greeter.wasm", guest.packaged("---\n---\n"));
    let ran = patchbay.run(&["plugin", "inspect", "greeter.wasm"]);
    let end = "\nwrong: [invalid_component] Listing its tools failed with trap: the component trapped: wasm trap: wasm \
               `unreachable` instruction executed.\n  printed: no[2Jcon\n";
    assert!(ran.code == Some(1) && ran.out.ends_with(end), "{ran:?}");
    let json = json_lines(&patchbay.run(&["plugin", "inspect", "--json", "greeter.wasm"]).out).remove(0);
    assert_eq!(json["printed"], json!(["no[2Jcon"]));
    // Loading writes the line to the operator's log.
    patchbay.write("home/config/skills/greeter.wasm", guest.packaged("---\n---\n"));
    assert!(!patchbay.line("/skills").contains("no[2Jcon"));
    let log = patchbay.log();
    assert!(log.lines().any(|line| line.contains("plugin") && line.contains("no[2Jcon")), "{log}");
}

/// Each log line names its session, turn and call.
#[test]
fn log_lines_name_their_session_turn_and_call() {
    let patchbay = Patchbay::new();
    let guest = Guest::calling(&format!("(call $write (i32.const 3) (i32.const 131072) (i32.const 1)) {ECHO}"));
    let guest = guest.with(
        "\n(import \"patchbay:host/log@0.1.0\" \"write\" (func $write (param i32 i32 i32)))\n(data (i32.const 131072) \"!\")\n",
    );
    patchbay.add_command("shout", &guest, "");
    patchbay.exec(&["/shout {}", "call shout__run {}"]);
    let log = patchbay.log();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("shout__run") && line.contains("plugin: !")).collect();
    let [typed, called] = lines[..] else { panic!("{log}") };
    let session = format!("session{{id={}", patchbay.last_session());
    for line in [typed, called] {
        assert!(line.contains(&session) && line.contains("call{id="), "{line}");
    }
    assert!(!typed.contains("turn{") && called.contains("turn{agent="), "{typed}\n{called}");
}

/// `inspect` is protected as loading is.
#[test]
fn inspect_uses_the_limits_of_loading() {
    let patchbay = Patchbay::blank();
    let inspect = |file: &str| patchbay.run(&["plugin", "inspect", file]);
    for (file, words) in
        [("/dev/zero", "not a regular file"), ("pipe.wasm", "not a regular file"), ("large.wasm", "over ")]
    {
        if file == "pipe.wasm" {
            let made = std::process::Command::new("mkfifo").arg(patchbay.workspace().join(file)).status();
            assert!(made.unwrap().success());
        }
        if file == "large.wasm" {
            let large = fs::File::create(patchbay.workspace().join(file)).unwrap();
            large.set_len(patchbay_core::COMPONENT_BYTES + 1).unwrap();
        }
        let ran = inspect(file);
        assert!(ran.code == Some(1) && ran.err.contains(words) && ran.out.is_empty(), "{file}: {ran:?}");
        let ran = patchbay.run(&["plugin", "build", ".", "--wasm", file]);
        assert!(ran.code == Some(1) && ran.err.contains(words), "{file}: {ran:?}");
    }
    assert!(!patchbay.home().exists(), "no home is made for it");

    // The limits and blocks of the home apply.
    let bytes = Guest::default().packaged(SKILL_MD);
    patchbay.write("workspace/greeter.wasm", &bytes);
    assert_eq!(inspect("greeter.wasm").code, Some(0));
    patchbay.line("/skills");
    patchbay.write("home/config/config.toml", "[limits]\ncompile_bytes = 50_000_000\n");
    let ran = inspect("greeter.wasm");
    assert!(ran.code == Some(1) && ran.out.contains("took more than 50000000 bytes of memory"), "{ran:?}");
    patchbay.write("home/config/config.toml", "");
    let digest = patchbay_core::Digest::of(&bytes).to_string();
    assert_eq!(patchbay.run(&["plugin", "block", &digest]).code, Some(0));
    let ran = inspect("greeter.wasm");
    assert!(ran.code == Some(1) && ran.out.contains("wrong: [blocked] The component is blocked"), "{ran:?}");
    assert!(!ran.out.contains("tool run"), "it was not asked: {}", ran.out);
    for (file, words) in [("/dev/zero", "regular file"), ("pipe.wasm", "regular file"), ("large.wasm", "over ")] {
        let ran = patchbay.run(&["provider", "check", file]);
        assert!(ran.code == Some(1) && ran.err.contains(words) && ran.out.is_empty(), "{file}: {ran:?}");
    }
}

#[test]
fn build_explains_why_a_folder_cannot_be_built() {
    let (patchbay, folder) = with_folder();
    let build = |arguments: &[&str]| patchbay.run(&[&["plugin", "build"], arguments].concat());

    let nowhere = build(&["nowhere"]);
    assert_refused(&nowhere, "nowhere: No such file or directory (os error 2)");
    assert_refused(&build(&[&folder, "--wasm", "none.wasm"]), "none.wasm: No such file or directory (os error 2)");

    patchbay.write("workspace/bare/README.md", "");
    let bare = patchbay.workspace().join("bare").canonicalize().unwrap().display().to_string();
    let least = "A skill needs a SKILL.md with at least four lines: ---, name: bare, summary: What it does, ---";
    let words = format!(
        "{bare} has no SKILL.md, and no sources that Patchbay can build (Cargo.toml, skill.js, skill.ts, skill.py, skill.c, or for a \
         provider Cargo.toml, provider.js, provider.ts). {least}. To begin from a template: patchbay plugin new NAME. To use a \
         component from another compiler: --wasm FILE"
    );
    assert_refused(&build(&["bare"]), &words);
    for (bytes, exports) in [(module(), "patchbay:skill/skill@0.1.0"), (b"\0asm\x0d\0\x01\0".to_vec(), "nothing")] {
        patchbay.write("workspace/other.wasm", bytes);
        let words =
            format!("{bare} has no SKILL.md, and its component exports {exports}, not a provider's adapter. {least}");
        assert_refused(&build(&["bare", "--wasm", "other.wasm"]), &words);
    }

    patchbay.write("workspace/torn/SKILL.md", "no frontmatter");
    let torn = patchbay.workspace().join("torn/SKILL.md").canonicalize().unwrap().display().to_string();
    let words = format!(
        "{torn}: [malformed_frontmatter] SKILL.md does not begin with a line '---'. Write '---', then lines such as 'summary: Greets people', then '---'."
    );
    assert_refused(&build(&["torn"]), &words);

    patchbay.write("workspace/Bad Name/SKILL.md", "---\n---\n");
    let ran = build(&["Bad Name"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.err.contains("/Bad Name: [invalid_name] 'Bad Name' is not a valid name: use 1 to 64 of "),
        "{}",
        ran.err
    );

    patchbay.write("workspace/text.wasm", "text");
    let ran = build(&[&folder, "--wasm", "text.wasm"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert!(ran.err.starts_with("Error: cannot make a component from text.wasm: "), "{}", ran.err);

    // A module without the metadata of its world.
    patchbay.write("workspace/worldless.wasm", wat::parse_str("(module (import \"env\" \"f\" (func)))").unwrap());
    let ran = build(&[&folder, "--wasm", "worldless.wasm"]);
    assert!(ran.err.starts_with("Error: cannot make a component from worldless.wasm: "), "{}", ran.err);

    let mut cut = Guest::default().component();
    cut.truncate(cut.len() - 10);
    patchbay.write("workspace/cut.wasm", cut);
    let ran = build(&[&folder, "--wasm", "cut.wasm"]);
    assert!(ran.err.starts_with("Error: cannot make a component from cut.wasm: Damaged or truncated: "), "{}", ran.err);
    assert!(!Path::new(&folder).join("greeter.wasm").exists(), "nothing was written");
}

#[test]
fn build_output_is_not_used_as_input() {
    let (patchbay, folder) = with_folder();
    let built = Guest::default().packaged(SKILL_MD);
    let file = format!("{folder}/greeter.wasm");
    fs::write(&file, &built).unwrap();
    let words = format!(
        "{file} already has an embedded SKILL.md; pass the component from before that build, or run cargo again"
    );
    assert_refused(&patchbay.run(&["plugin", "build", &folder, "--wasm", &file]), &words);
    assert_eq!(fs::read(&file).unwrap(), built, "it is as it was");
}

/// Writes a skill folder with a SKILL.md and these Rust sources below the build folder. Names must be unique, because cargo does
/// not distinguish packages of the same name in one target folder.
fn rust(name: &str, lib: &str, lib_keys: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("SKILL.md"), SKILL_MD.replace("greeter", name).replace("tool: run", "tool: greet")).unwrap();
    fs::write(folder.join("src/lib.rs"), lib).unwrap();
    // The lock file and the profile of the bundled skills, whose dependencies are already built.
    fs::copy(plugins.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let bundled: toml::Table = fs::read_to_string(plugins.join("Cargo.toml")).unwrap().parse().unwrap();
    let profile = toml::Table::from_iter([("profile".to_owned(), bundled["profile"].clone())]);
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/rust").canonicalize().unwrap();
    let manifest = format!(
        "[package]\nname = '{name}'\nversion = '0.1.0'\nedition = '2024'\n\n[lib]\n{lib_keys}\n\n[workspace]\nresolver = '3'\n\n\
         [dependencies]\npatchbay-sdk = {{ path = '{}' }}\nschemars = '1.2'\n\
         serde = {{ version = '1', features = ['derive'] }}\n\n{profile}",
        sdk.display()
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    folder
}

/// Builds the folder with cargo, offline.
pub(crate) fn build(patchbay: &Patchbay, folder: &Path) -> Ran {
    let mut command = patchbay.command(&["plugin", "build", folder.to_str().unwrap()]);
    // Not the target folder of the bundled plugins: the rustc flags differ, so cargo would rebuild their dependencies.
    let target = concat!(env!("CARGO_TARGET_TMPDIR"), "/plugins");
    ran(command.env("CARGO_TARGET_DIR", target).env("CARGO_NET_OFFLINE", "true").output().unwrap())
}

const CDYLIB: &str = "crate-type = ['cdylib']";
const GREETER: &str = r#"
use patchbay_sdk::{Result, skill};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Greet {
    /// The name of the person.
    name: String,
}

skill! {
    /// Greets a person by name.
    fn greet(input: Greet) -> Result<String> {
        Ok(format!("Hello, {}!", input.name))
    }
}
"#;

#[test]
fn rust_sources_become_a_working_skill() {
    let patchbay = Patchbay::new();
    let folder = rust("greeter", GREETER, CDYLIB);
    let _ = fs::remove_file(folder.join("greeter.wasm"));
    let ran = build(&patchbay, &folder);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let (first, tool) = ran.out.split_once('\n').unwrap();
    let built = folder.canonicalize().unwrap().join("greeter.wasm");
    assert_eq!(first, format!("{}: {} bytes", built.display(), built.metadata().unwrap().len()));
    assert!(tool.starts_with("tool greet: Greets a person by name.\n"), "{tool}");

    // Installed as a single file.
    patchbay.write("home/config/skills/greeter.wasm", fs::read(&built).unwrap());
    assert_eq!(patchbay.line("/greet Ada"), "Hello, Ada!");
    // Installed as a folder, including its sources.
    #[cfg(unix)]
    {
        let patchbay = Patchbay::new();
        fs::create_dir_all(patchbay.home().join("config/skills")).unwrap();
        std::os::unix::fs::symlink(&folder, patchbay.home().join("config/skills/greeter")).unwrap();
        assert_eq!(patchbay.line("/greet {\"name\": \"Bo\"}"), "Hello, Bo!");
    }
}

/// The user sees the position and message of a panic, even if a model made the call. The model does not.
#[test]
fn panic_message_of_a_rust_skill_is_shown() {
    let patchbay = Patchbay::quick();
    let panics =
        GREETER.replace("Ok(format!", "if input.name == \"x\" { panic!(\"no name: {}\", input.name) } Ok(format!");
    let folder = rust("panics", &panics, CDYLIB);
    let ran = build(&patchbay, &folder);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    patchbay.write("home/config/skills/panics.wasm", fs::read(folder.join("panics.wasm")).unwrap());
    let shown = patchbay.line("/greet x");
    let words = "Error: tool 'panics__greet' was stopped: the component trapped: wasm trap: wasm `unreachable` instruction \
                 executed.\n  printed: panicked at src/lib.rs:";
    assert!(shown.starts_with(words) && shown.contains(": no name: x"), "{shown}");
    let model = &patchbay.answers(&["call panics__greet {\"name\": \"x\"}"])[0];
    assert!(model.rows().iter().any(|(_, text)| text.contains("instruction executed")), "{model:?}");
    let shows_panic = |kind: &str| model.rows().iter().any(|(row, text)| *row == kind && text.contains("no name: x"));
    assert!(shows_panic("tool") && !shows_panic("assistant"), "{model:?}");
}

#[test]
fn built_skill_contains_no_local_paths() {
    let patchbay = Patchbay::new();
    let folder = rust("placeless", GREETER, CDYLIB);
    assert_eq!(build(&patchbay, &folder).code, Some(0));
    let bytes = fs::read(folder.join("placeless.wasm")).unwrap();
    assert_eq!(patchbay_tests::paths::local_paths_in(&bytes), [""; 0]);
}

#[test]
fn rust_build_failure_is_explained() {
    let patchbay = Patchbay::new();
    let folder = rust("broken", "fn", CDYLIB);
    let ran = build(&patchbay, &folder);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    let folder = folder.canonicalize().unwrap().display().to_string();
    let words = format!("Error: cargo could not build {folder}; its messages are above [build_failed]\n");
    assert!(ran.err.ends_with(&words), "{}", ran.err);
    assert!(ran.err.contains("error: expected"), "cargo's own words are missing: {}", ran.err);

    let folder = rust("no_library", "", "");
    let ran = build(&patchbay, &folder);
    let folder = folder.canonicalize().unwrap().display().to_string();
    let words = format!(
        "Error: {folder}/Cargo.toml does not build a WebAssembly library: write crate-type = [\"cdylib\", \"rlib\"] \
         under [lib] \
         [build_failed]\n"
    );
    assert!(ran.err.ends_with(&words), "{}", ran.err);

    let mut command = patchbay.command(&["plugin", "build", &folder]);
    let ran = ran_without_cargo(&mut command);
    let words =
        "cannot run cargo: No such file or directory (os error 2). Install Rust, or pass the module with --wasm FILE";
    assert_refused(&ran, words);
}

fn ran_without_cargo(command: &mut std::process::Command) -> Ran {
    ran(command.env("CARGO", "/nowhere/cargo").output().unwrap())
}

#[test]
fn inspect_describes_a_plugin() {
    let (patchbay, folder) = with_folder();
    let skill_md = SKILL_MD.replace(
        "---\nname",
        "---\nversion: 1.2\ncapabilities: [{name: kv, reason: keeps}, {name: clock, optional: true}]\nname",
    );
    let component = Guest::default().packaged(&skill_md);
    patchbay.write("workspace/greeter.wasm", &component);
    let json = patchbay.run(&["plugin", "inspect", "--json", "greeter.wasm"]);
    let [report] = &json_lines(&json.out)[..] else { panic!("{json:?}") };
    let component_digest = patchbay_core::Digest::of(&component);
    assert_eq!(report["component"], json!(component_digest));
    let digest = report["digest"].as_str().unwrap();
    assert_eq!(
        (&report["name"], &report["size"], &report["problems"]),
        (&json!("greeter"), &json!(component.len()), &json!([]))
    );
    assert_eq!(report["manifest"]["command"], "greet");
    assert_eq!(report["tools"][0]["name"], "run");
    assert_eq!(report["exports"], json!(["patchbay:skill/skill@0.1.0"]));

    let ran = patchbay.run(&["plugin", "inspect", "greeter.wasm"]);
    let expected = format!(
        "\
name            greeter
summary         Greets
version         1.2
invocation_mode tool_dispatch
command         /greet
command_tool    run
capabilities    kv (keeps), clock (optional)
size            {} bytes
digest          {digest}
component       {component_digest}
imports         {}
exports         patchbay:skill/skill@0.1.0
tool run: Echoes its input
  {{\"type\":\"object\"}}
",
        component.len(),
        report["imports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|import| import.as_str().unwrap())
            .collect::<Vec<_>>()
            .join(", ")
    );
    let expected = expected.replace("imports         \n", "imports         (none)\n");
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), &*expected, ""));

    // In every other location, the digest of the installed skill is the same.
    let installed = Patchbay::new();
    installed.write("home/config/skills/greeter.wasm", &component);
    let help = installed.answers(&["/help greeter"]).remove(0);
    assert_eq!((&help.data()["digest"], &help.data()["component"]), (&report["digest"], &report["component"]));
    let listed = json_lines(&installed.run(&["plugin", "list", "--json"]).out);
    let listed = listed.iter().find(|plugin| plugin["name"] == "greeter").unwrap();
    assert_eq!((&listed["digest"], &listed["component"]), (&report["digest"], &report["component"]));
    installed.run(&["grant", "add", "greeter", "kv"]);
    assert_eq!(installed.run(&["grant", "list"]).out, format!("greeter user skill: kv {digest}\n"));

    // A folder without a component is also a skill.
    patchbay.write("home/config/skills/greeter/SKILL.md", "---\nsummary: Greets\n---\n");
    let ran = patchbay.run(&["plugin", "inspect", &folder]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.contains("\ndigest          sha256:"), "{}", ran.out);
    assert!(ran.out.contains("\ncomponent       (none)\n"), "{}", ran.out);
}

#[test]
fn inspect_reports_faults_of_a_plugin() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/text.wasm", "text");
    patchbay.write("workspace/plain.wasm", Guest::default().component());
    patchbay.write("workspace/Bad.wasm", Guest::default().packaged("---\n---\n"));
    patchbay.write("workspace/other.wasm", Guest::default().packaged(SKILL_MD));
    let mut schema = Guest::default();
    schema.tools[0].2 = "[]".into();
    patchbay.write("workspace/greeter.wasm", schema.packaged(SKILL_MD));
    for (file, wrong) in [
        ("text.wasm", "[invalid_component] Not WebAssembly: it does not begin with the four bytes '\\0asm'."),
        ("plain.wasm", "[missing_skill_md] The component has no SKILL.md; 'patchbay plugin build' embeds it."),
        (
            "Bad.wasm",
            "[invalid_name] 'Bad' is not a valid name: use 1 to 64 of a-z, 0-9, '_' and '-', begin with a letter \
                      or digit, and do not use '__'.",
        ),
        (
            "other.wasm",
            "[invalid_name] Name 'greeter' in SKILL.md differs from its folder or file, 'other'. Write 'name: other'.",
        ),
    ] {
        let ran = patchbay.run(&["plugin", "inspect", file]);
        let found: Vec<_> = ran.out.lines().filter_map(|line| line.strip_prefix("wrong: ")).collect();
        assert_eq!((ran.code, found, &*ran.err), (Some(1), vec![wrong], ""), "{file}");
        let json = patchbay.run(&["plugin", "inspect", "--json", file]);
        assert_eq!((json.code, &json_lines(&json.out)[0]["problems"]), (Some(1), &json!([wrong])), "{file}");
    }
    let ran = patchbay.run(&["plugin", "inspect", "greeter.wasm"]);
    assert_eq!(ran.code, Some(1));
    let wrong = "wrong: [invalid_component] Listing its tools failed with invalid_output: the component \
        returned an invalid result: the input schema of tool 'run' is not a JSON object.";
    let found: Vec<_> = ran.out.lines().filter(|line| line.starts_with("wrong: ")).collect();
    assert_eq!(found, [wrong], "a component that cannot be described has no diagnostics about missing tools");

    let ran = patchbay.run(&["plugin", "inspect", "none.wasm"]);
    let words = "Error: cannot use none.wasm: No such file or directory (os error 2). [folder_unusable]\n";
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "", words));
}

//! Searches of a whole repository in one call: by the bundled skills, and by a component with its own world.

use std::{fs, path::Path};

use patchbay_sandbox::Limits;
use patchbay_tests::{
    binary::Patchbay,
    guest::{self, Guest, data},
    play::{Play, quick_demo},
};
use serde_json::{Value, json};

/// The number of files in the repository.
const FILES: usize = 50_000;
const IN_FOLDER: usize = 100;
/// One file in this many has a hit.
const HIT_EVERY: usize = FILES / 20;

/// Returns the path of a file in the repository.
fn path(number: usize) -> String {
    let name = if is_hit(number) { "needle" } else { "file" };
    format!("packages/p{}/src/{name}{number}.txt", number / IN_FOLDER)
}

fn is_hit(number: usize) -> bool {
    number % HIT_EVERY == HIT_EVERY - 1
}

fn write_repository(workspace: &Path) {
    for number in 0..FILES {
        let file = workspace.join(path(number));
        if number % IN_FOLDER == 0 {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
        }
        let text = if is_hit(number) { "one\n  let needle = 1;\n" } else { "one\n  let straw = 1;\n" };
        fs::write(file, text).unwrap();
    }
    fs::write(workspace.join(".gitignore"), "/target/\n*.log\n").unwrap();
}

/// Lets the model call a tool, and returns the result.
async fn call(play: &Play, tool: &str, input: Value) -> String {
    play.run(&format!("call {tool} {input}")).await;
    let envelope = play.results(play.session.view()).await.pop().unwrap();
    envelope["result"].as_str().unwrap_or_else(|| panic!("{envelope}")).to_owned()
}

#[tokio::test]
async fn one_call_finds_every_hit_in_fifty_thousand_files() {
    let patchbay = Patchbay::new();
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins");
    for skill in ["files", "grep"] {
        for (file, from) in [("SKILL.md", format!("skills/{skill}/SKILL.md")), ("x.wasm", format!("dist/{skill}.wasm"))]
        {
            patchbay.write(&format!("home/config/skills/{skill}/{file}"), fs::read(plugins.join(from)).unwrap());
        }
        patchbay.grant(skill, &["workspace-read"]);
    }
    write_repository(&patchbay.workspace());
    let play = Play::at(patchbay, quick_demo(), Limits::default()).await;

    let mut hits: Vec<String> = (0..FILES).filter(|number| is_hit(*number)).map(path).collect();
    hits.sort();
    let expected: Vec<String> = hits.iter().map(|path| format!("{path}:2:  let needle = 1;")).collect();
    let found = call(&play, "grep__search", json!({"pattern": r"needle\s+="})).await;
    assert_eq!(expected.len(), 20);
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);

    let named = call(&play, "files__find", json!({"name": "needle*.txt"})).await;
    let expected: Vec<String> = hits.iter().map(|path| format!("{path} (22 bytes)")).collect();
    assert_eq!(named.lines().collect::<Vec<_>>(), expected);
}

/// A component that imports `workspace-search` in its own world. Its tool returns the path of the first file that matches
/// `needle`.
pub(crate) fn searching() -> Vec<u8> {
    const QUERY: u32 = 16_384;
    const PATTERN: u32 = 20_000;
    let mut query = [0; 88];
    let mut set = |at: usize, value: u32| query[at..at + 4].copy_from_slice(&value.to_le_bytes());
    // Sets the address and length of the pattern, `max-lines` and `max-line-bytes`. All other fields are false, absent or empty.
    set(0, PATTERN);
    set(4, 6);
    set(60, 10);
    set(64, 100);
    let guest = Guest::calling(
        "(call $search (i32.const 16384) (i32.const 512))
         (if (i32.load8_u (i32.const 512)) (then
           (i32.store8 (i32.const 0) (i32.const 1))
           (i32.store (i32.const 4) (i32.load (i32.const 520))) (i32.store (i32.const 8) (i32.load (i32.const 524)))
           (i32.store (i32.const 12) (i32.load (i32.const 528))) (i32.store (i32.const 16) (i32.load (i32.const 532)))
           (return (i32.const 0))))
         (i32.store8 (i32.const 0) (i32.const 0))
         (i32.store (i32.const 4) (i32.const 64))
         (i32.store (i32.const 8) (i32.const 1))
         (i32.store8 (i32.const 64) (i32.const 0))
         (i32.store (i32.const 68) (i32.load (i32.load (i32.const 520))))
         (i32.store (i32.const 72) (i32.load offset=4 (i32.load (i32.const 520))))
         (i32.const 0)",
    );
    let import = "\n(import \"patchbay:host/workspace-search@0.1.0\" \"search\" (func $search (param i32 i32)))\n";
    guest.with(import).with(&data(QUERY, &query)).with(&data(PATTERN, b"needle")).importing("workspace-search")
}

#[test]
fn a_component_searches_with_the_grant_for_reading() {
    let patchbay = Patchbay::new();
    let skill_md = "---\ninvocation_mode: tool_dispatch\ncommand: first\ncommand_tool: run\n\
                    capabilities: [{name: workspace-read}]\n---\n";
    patchbay.write("home/config/skills/first.wasm", guest::package(searching(), skill_md));
    patchbay.write("workspace/b.txt", "a needle");
    patchbay.write("workspace/c.txt", "a needle");
    let denied = "Error: skill 'first' may not use 'workspace-read': it is not granted. To grant it: patchbay grant add first \
                  workspace-read";
    assert_eq!(patchbay.line("/first"), denied);
    patchbay.grant("first", &["workspace-read"]);
    assert_eq!(patchbay.line("/first"), "b.txt");
}

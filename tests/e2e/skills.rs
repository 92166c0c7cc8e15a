//! `/skills` and `/help`: how they display a snapshot.
//!
//! The binary cannot produce the code `skills_empty`, because the bundled skills are always present.

use patchbay_tests::{binary::Patchbay, guest::Guest};

const BUNDLED: &str = "\
calc - Exact arithmetic on big numbers and units
code - Run JavaScript that calls tools
files - The workspace's files: read, list, write, edit
grep - Search the workspace's files with regular expressions
json - Query and reshape JSON with JMESPath
notes - Notes that stay: add, list, search, delete
plan_compiler - Turns a goal into a checked plan
web - Web pages as readable text";

#[test]
fn skills_are_listed_by_name_with_summary() {
    let patchbay = Patchbay::new();
    assert_eq!(patchbay.line("/skills"), BUNDLED);
    patchbay.skill("zebra", "summary: Last", "");
    patchbay.skill("bare", "", "");
    patchbay.skill("described", "description: Stands in\n  for a summary", "");
    let listed = patchbay.line("/skills");
    assert_eq!(
        listed,
        format!("bare\n{}\nzebra - Last", BUNDLED.replace("files - ", "described - Stands in for a summary\nfiles - "))
    );
}

#[test]
fn diagnostics_are_sorted_and_contain_no_paths() {
    let patchbay = Patchbay::new();
    let os = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    patchbay.skill("collides", "command: skills", "");
    patchbay.skill("lacks_env", "eligibility: {env: [PATCHBAY_TEST_A, PATH, PATCHBAY_TEST_B]}", "");
    patchbay.skill("lacks_binary", "eligibility: {binaries: [patchbay-test-no-such-program]}", "");
    patchbay.skill("lacks_os", "eligibility: {os: [plan9, windows]}", "");
    patchbay.skill("lacks_tool", "requires_tools: [nowhere__tool]", "");
    patchbay.skill("misnamed", "name: other", "");
    patchbay.skill("odd_alias", "command: 'Not One'", "");
    patchbay.skill("toolless", "invocation_mode: tool_dispatch\ncommand_tool: run", "");
    patchbay.skill("first", "command: go", "");
    patchbay.skill("second", "command: go", "");
    patchbay.write("home/config/skills/Bad Name/SKILL.md", "---\n---\n");
    patchbay.write("home/config/skills/empty/README.md", "");
    patchbay.write("home/config/skills/torn/SKILL.md", "no frontmatter");
    patchbay.write("home/config/skills/garbage.wasm", "text");
    patchbay.write("home/config/skills/plain.wasm", Guest::default().component());
    patchbay.write("home/config/skills/twins/SKILL.md", "---\n---\n");
    patchbay.write("home/config/skills/twins/a.wasm", "");
    patchbay.write("home/config/skills/twins/b.wasm", "");
    patchbay.write("home/config/skills/not-a-skill.txt", "");

    let answer = &patchbay.answers(&["/skills"])[0];
    let expected = format!("\
{}

Diagnostics:
- Bad Name [invalid_name] 'Bad Name' is not a valid name: use 1 to 64 of a-z, 0-9, '_' and '-', begin with a letter or digit, and do not use '__'.
- collides [command_alias_collision] Alias '/skills' is a built-in command; skill excluded.
- empty [missing_skill_md] The folder has no SKILL.md.
- first [alias_ambiguous] Alias '/go' is claimed by first, second; it works for none, '/skill NAME' does.
- garbage [invalid_component] Not WebAssembly: it does not begin with the four bytes '\\0asm'.
- lacks_binary [ineligible] Missing binaries: patchbay-test-no-such-program.
- lacks_env [ineligible] Missing environment: PATCHBAY_TEST_A, PATCHBAY_TEST_B.
- lacks_os [ineligible] OS '{os}' not in [plan9, windows].
- lacks_tool [missing_required_tools] Missing required tool: nowhere__tool.
- misnamed [invalid_name] Name 'other' in SKILL.md differs from its folder or file, 'misnamed'. Write 'name: misnamed'.
- odd_alias [invalid_command_alias] Alias 'Not One' is not a valid name: use 1 to 64 of a-z, 0-9, '_' and '-', begin with a letter or digit, and do not use '__'.
- plain [missing_skill_md] The component has no SKILL.md; 'patchbay plugin build' embeds it.
- second [alias_ambiguous] Alias '/go' is claimed by first, second; it works for none, '/skill NAME' does.
- toolless [command_tool_missing] Command tool 'run' needs a component, but the skill's folder has none (*.wasm). To build one: patchbay plugin build DIR
- torn [malformed_frontmatter] SKILL.md does not begin with a line '---'. Write '---', then lines such as 'summary: Greets people', then '---'.
- twins [several_components] Several components: a.wasm, b.wasm; a skill has at most one.",
        BUNDLED.replace("grep - ", "first\ngrep - ").replace("web - ", "second\nweb - ")
    );
    assert_eq!(answer.code(), "skills_listed");
    assert_eq!(answer.message(), expected);
    let folder = patchbay.folder().to_str().unwrap();
    assert!(!answer.outcome.to_string().contains(folder), "a path leaked");
}

/// Returns a component with a SKILL.md that sets every key.
fn full() -> Vec<u8> {
    Guest::default().packaged(
        "---\nname: full\nversion: 1.10\nsummary: Has it all\ninvocation_mode: tool_dispatch\ncommand: all\n\
         command_tool: run\nrequires_tools: [calc__eval, json__query]\n\
         eligibility: {os: [linux, darwin], env: [PATH], binaries: [sh]}\n\
         capabilities:\n  - {name: kv}\n  - {name: http, scope: api.example.com, optional: true}\n---\n",
    )
}

/// The tool of `bomb` traps, but `/help` does not call it.
#[test]
fn help_shows_all_fields_in_order_and_runs_nothing() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/skills/full.wasm", full());
    patchbay.skill("bare", "", "");
    let skill_md = "---\ninvocation_mode: tool_dispatch\ncommand_tool: run\n---\n";
    patchbay.write("home/config/skills/bomb.wasm", Guest::trapping().packaged(skill_md));
    let answers = patchbay.answers(&["/help full", "/help bare", "/help notes", "/help bomb", "/skill bomb"]);
    let (data, bare) = (answers[0].data(), answers[1].data()["digest"].as_str().unwrap());
    let digest = data["digest"].as_str().unwrap();
    let component = data["component"].as_str().unwrap();
    assert_eq!(digest.len(), "sha256:".len() + 64);
    assert_eq!(answers[0].code(), "skill_help");
    assert_eq!(
        answers[0].message(),
        format!(
            "\
# /help full

- `name`: full
- `version`: 1.10
- `summary`: Has it all
- `source`: user
- `invocation_mode`: tool_dispatch
- `command_alias`: /all
- `command_tool`: run
- `tools`: run
- `requires_tools`: calc__eval, json__query
- `eligibility.os`: linux, darwin
- `eligibility.env`: PATH
- `eligibility.binaries`: sh
- `capabilities`: kv (not granted), http:api.example.com (not granted)
- `digest`: {digest}
- `component`: {component}"
        )
    );
    assert_eq!(
        answers[1].message(),
        format!(
            "\
# /help bare

- `name`: bare
- `version`: (none)
- `summary`: (none)
- `source`: user
- `invocation_mode`: llm_orchestration
- `command_alias`: (none)
- `command_tool`: (none)
- `tools`: (none)
- `requires_tools`: (none)
- `eligibility.os`: (none)
- `eligibility.env`: (none)
- `eligibility.binaries`: (none)
- `capabilities`: (none)
- `digest`: {bare}"
        )
    );
    let bundled = answers[2].message();
    assert!(bundled.contains("\n- `source`: bundled\n"), "{bundled}");
    assert!(bundled.contains("\n- `capabilities`: kv (granted)\n"), "{bundled}");
    assert_eq!((answers[3].code(), answers[4].code()), ("skill_help", "trap"));
}

#[test]
fn control_characters_of_a_skill_are_escaped() {
    let patchbay = Patchbay::new();
    patchbay.skill("sly", "summary: \"a\\e[31mb\\u202Ec\\u200Bd\\nsecond line\"", "");
    let listed = patchbay.exec(&["/skills", "/help sly", "/commands"]).out;
    assert!(listed.contains("\nsly - a[31mbcd second line\n"), "{listed:?}");
    assert!(!listed.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{listed:?}");
}

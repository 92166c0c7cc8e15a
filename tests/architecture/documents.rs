//! Checks documents that are generated from the source, and references in documents. `make docs` regenerates them, and
//! `docs/config.md`, which the tests of the binary check.

use std::{env, fmt::Write as _, fs};

use patchbay_core::Code;

use crate::repository;

/// Asserts that a document has this text, or writes it if `UPDATE_DOCS` is set.
pub fn assert_document(path: &str, expected: &str) {
    let file = repository(path);
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, expected).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == expected, "{path} is not what the source says; run: make docs");
}

#[test]
fn codes() {
    let mut text = String::from(
        "# Codes\n\nEvery outcome has a `status`, a stable `code`, a `message` and sometimes `data`. The codes, from the one \
         table in the source:\n",
    );
    let mut section = "";
    for (of, code, meaning) in Code::TABLE {
        if *of != section {
            section = of;
            write!(text, "\n## {section}\n\n| code | meaning |\n| --- | --- |\n").unwrap();
        }
        writeln!(text, "| `{code}` | {meaning} |").unwrap();
    }
    assert_document("docs/codes.md", &text);
}

/// The command that calls any tool, in `docs/commands.md`.
const TOOL: &str = r#"
## Calling one tool

`/tool NAME JSON` calls any tool of the session by its full name: `SKILL__TOOL` for a skill's tool, `mcp__SERVER__TOOL` for a tool of an MCP server. No model is involved. The call is checked, limited, asked about and recorded like a command that calls a tool, so it is a quick way to try a tool that has no command:

```
/tool calc__eval {"expression": "2^100"}
```

The JSON is the tool's input, an object; without it the input is `{}`.

| error | code |
| --- | --- |
| `Error: tool 'calc__x' not found in snapshot. Tools of 'calc': calc__eval.` | `tool_not_found` |
| `Error: input for 'calc__eval' is an array: write a JSON object, such as {"name": "Ada"}.` | `invalid_input` |
| `Error: input for 'calc__eval' is invalid: "expression" is a required property.` | `invalid_input` |
"#;

/// The commands of the conversation and the queue, in `docs/commands.md`.
const QUEUE: &str = "
## While a turn runs

Messages, and commands that begin a turn, wait in a queue while the agent in view answers. A message that you send with Enter in \
the terminal joins the turn that runs, once it is the first in the queue and the calls of an answer have ended. A command begins a turn if it gives \
input to a skill without a `command_tool`. They also wait for `/model`, `/agent`, `/reload_skills` and `/skill NAME` before \
them. All other commands of an agent run during its turns as well, one after another in the order you typed them. Those \
that only show the session do not wait for tools; `/kill`, `/switch` and `/quit` wait for no other command. Lines behind an \
unfinished `/fork`, `/rewind` or `/switch` belong to the agent that it brings into view. A waiting line is stored as you typed it; a command is \
resolved when its turn begins. [using.md](using.md#lines-that-wait) says when the lines run.

| outcome of a line | code |
| --- | --- |
| `Error: 100 lines wait for their turns; more than 100 cannot wait. Nothing of this line was kept; send it again when the queue is shorter.` | `queue_full` |
| `Error: with this line, N bytes would wait for their turns; the limit is 1048576. Nothing of this line was kept; send it again when the queue is shorter.` | `queue_full` |
| `Taken back. Nothing of this line was kept.` | `line_taken_back` |
| `Cancelled. Nothing of this line was kept.`: the line was stopped while it waited | `turn_cancelled` |
| `The session is closed. This line waits in it until the session is resumed.` | `line_waits` |

## A message without an answer

A message has no answer if its turn failed or was stopped before the model wrote text, or before it answered the results of its \
tools. Such a message stays in the conversation and is sent together with the next one.

`/retry` runs its turn again; the message is stored once. Tools that have run do not run again. `/retry` runs before the lines that \
wait and releases them. The outcome is that of the turn.

`/drop` takes the message out of the conversation, together with the calls of tools that its turn made. The rows stay in the \
session but are not sent to the model. `Dropped: MESSAGE` shows its first 50 characters, or `/skill NAME` for the instructions of \
a skill (`message_dropped`).

| error | code |
| --- | --- |
| `Error: there is no message without an answer.` | `nothing_unanswered` |
| `Error: cannot retry while a response is streaming. Wait for it to finish or press Ctrl+C to cancel it.` | `turn_running` |
| `Error: cannot drop a message while a response is streaming. Wait for it to finish or press Ctrl+C to cancel it.` | `turn_running` |

## Going back

`/rewind` lists the messages with which you began turns of the agent in view, inherited ones too, with their numbers: the last 50, oldest \
first, each with its first 60 characters; before them, if there are more, `\u{2026} N earlier` (`rewind_listed`). Without messages, the \
result is `There are no messages to go back to.`

`/rewind N` goes back to before message N: a new agent that has the conversation up to there comes into view (`rewound`). Its parent \
is that of the agent that was in view; of the root it is the root. The old agent is held, and keeps its rows, its waiting lines, its \
children and their reports. Files stay as they are.

```
Back to before message 2: Fix the bug
You now talk to a1b2c3d4. 5e6f7a8b is held; /switch 5e6f7a8b returns to it.
```

`/rewind N --files` also restores the files that this conversation has changed since message N: in its turns, in its commands, and \
by the agents that its turns forked. It restores them as `/undo` does, before the new agent is made, and follows with \
`Restored 2 files.`, the difference, the files under `Not undone:` that were changed since by anything else, and `To redo it: /undo \
7`; or with `No files were changed since then.` If the process ends in the middle, the same command goes on. \
`/rewind N --files-only` restores the files alone (`change_undone`, or `change_kept` if none could be restored).

| error | code |
| --- | --- |
| `Error: message 9 was not found. /rewind lists your messages.` | `message_not_found` |
| `Error: /rewind requires the number of a message, then --files, --files-only, or nothing.` | `invalid_args` |
| `Error: cannot go back while a response is streaming. Wait for it to finish or press Ctrl+C to cancel it.` | `turn_running` |
| `Error: cannot undo changes while an agent works on them. Wait for it to finish or press Ctrl+C to stop it.`: another agent, with files | `turn_running` |
| `Error: no files were changed since message 2.`: with `--files-only` | `change_not_found` |

## History

`/history` shows the last 10 messages to the agent in view and the last text of each answer, oldest first, with a blank line \
between them; `/history N` the last N, from 1 to 100. Of a message it shows 3 lines, of an answer the last 12, of a line 400 \
characters, and in all 64 KiB. A message begins with `> `; `(no answer)` and `(interrupted)` say how its turn ended, `(running)` \
that it still runs. If there is more, the first line is `\u{2026} earlier messages are left out` (`history_listed`). Dropped messages are not shown.

Without messages, the result is `There are no messages.` (`history_empty`). Any other argument is an error: `Error: /history \
requires a number from 1 to 100.` (`invalid_args`).
";

/// The commands of the terminal, in `docs/commands.md`.
const TERMINAL: &str = "
## Commands of the terminal

These commands show what the open terminal has kept. They are not stored, and other fronts do not know them: there `/show` and \
`/copy` are unknown commands. No skill can have their names as its alias.

| command | what it prints |
| --- | --- |
| `?` | the keys of the terminal and these commands |
| `/new` | begins a new session in this terminal; the old one is kept |
| `/resume` | the sessions of this workspace, the one in use marked with `*` |
| `/resume ID` | continues the session with this id or the beginning of one; the one that you leave is kept |
| `/show` | the newest result of a tool, in full |
| `/show N` | result N; the last 200 results, at most 8 MiB, are kept |
| `/show N in` | the input of the call of result N: of `code` the whole program, else JSON |
| `/show thinking` | the thinking before the last answer |
| `/ps` | the programs that run in the background, and those that have ended: [running.md](running.md) |
| `/ps N` | the same about program N, and the last 64 KiB of its output |
| `/ps stop N` | stops one: `Stopped` and its command line |
| `/copy` | copies the last answer: `Copied N characters, if the terminal allows it (OSC 52).` |
| `/copy code` | copies the last block of code of the last answer |
| `/copy N`, `/copy thinking` | copies what `/show` prints |

| error |
| --- |
| `Error: no result of a tool was shown yet.` |
| `Error: there is no result 7; results 1 to 3 are kept.` |
| `Error: the number of a result or 'thinking' is required.` |
| `Error: no thinking was shown yet.` |
| `Error: no answer was shown yet.` |
| `Error: the last answer has no code.` |
| `Error: there is no program 3; /ps lists them.` |
| `Error: use /ps, /ps N or /ps stop N.` |
";

#[test]
fn commands() {
    let mut text = String::from(
        "# Commands\n\nA line is a command when its first character is `/`; a space before it makes it conversation. Names \
         match exactly. Built-ins win over the aliases that skills bring; nothing is guessed, and no command ever reaches a \
         model.\n\n| command | what it does |\n| --- | --- |\n",
    );
    for spec in patchbay_session::specs() {
        writeln!(text, "| `{}` | {} |", spec.usage(), spec.summary).unwrap();
    }
    text.push_str(
        "\nAn alias such as `/calc` is `/skill NAME` of the skill that declares it. The text after it becomes the input of the \
         skill's `command_tool`: a JSON object is taken as it is, and must satisfy the tool's schema; any other text becomes \
         the one property that the schema requires, if that is a string; no text is `{}`. If there is no text and the tool \
         needs one, the error shows the skill's `input_hint`, such as `Error: /web requires URL.` \
         Skills without a `command_tool` put their instructions into the conversation: the text replaces `$INPUT` and \
         `$ARGUMENTS`, its words replace `$0`, `$1` … and `$ARGUMENTS[N]`, and if nothing is replaced, the text follows as \
         `ARGUMENTS: …`. Such a skill is also [called by its name](skill-reference.md#names-as-commands), unless an alias or a \
         built-in has it.\n",
    );
    text.push_str(TOOL);
    text.push_str(QUEUE);
    text.push_str(TERMINAL);
    assert_document("docs/commands.md", &text);
}

/// Every path that docs/architecture.md names exists.
#[test]
fn paths_in_the_architecture_document_exist() {
    let text = fs::read_to_string(repository("docs/architecture.md")).unwrap();
    let roots = ["host/", "tests/", "plugins/", "wit/", "docs/"];
    let named = text.split('`').skip(1).step_by(2).filter(|code| roots.iter().any(|root| code.starts_with(root)));
    let paths: Vec<&str> = named.collect();
    assert!(paths.len() > 40, "the paths are not found: {paths:?}");
    for path in paths {
        let path = path.split('#').next().unwrap_or(path);
        assert!(repository(path).exists(), "docs/architecture.md names {path}, which is not there");
    }
}

/// Every relative link between documents leads to a file, and to a heading if it names one.
#[test]
fn links_between_documents_lead_somewhere() {
    let documents = fs::read_dir(repository("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut documents: Vec<_> = documents.collect();
    documents.extend(["README.md", "CONTRIBUTING.md", "wit/README.md"].map(repository));
    documents.sort();
    let (mut links, mut broken) = (0, Vec::new());
    for document in &documents {
        let text = fs::read_to_string(document).unwrap();
        for link in links_of(&text) {
            links += 1;
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            let is_there = match fs::read_to_string(&target) {
                Ok(text) => heading.is_empty() || anchors_of(&text).iter().any(|anchor| anchor == heading),
                Err(_) => heading.is_empty() && target.exists(),
            };
            if !is_there {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(links > 150, "the links are not found: {links}");
    assert!(broken.is_empty(), "these links lead nowhere:\n{}", broken.join("\n"));
}

/// Returns the targets of Markdown links that are in this repository.
fn links_of(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace)).collect()
}

/// Returns the anchors that Markdown gives to headings: lower case, spaces as `-`, without punctuation.
fn anchors_of(text: &str) -> Vec<String> {
    let mut in_code = false;
    let headings = text.lines().filter(|line| {
        in_code ^= line.starts_with("```");
        !in_code && line.starts_with('#')
    });
    let mut anchors: Vec<String> = Vec::new();
    for heading in headings {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || ['-', '_', ' '].contains(c);
        let anchor: String = heading.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect();
        let same = anchors.iter().filter(|known| **known == anchor).count();
        anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
    }
    anchors
}

/// The test example in docs/skills-rust.md equals the example in the SDK's module `testing`, which
/// is tested as its documentation.
#[test]
fn example_of_tests_in_the_author_guide_is_tested() {
    let guide = fs::read_to_string(repository("docs/skills-rust.md")).unwrap();
    let module = fs::read_to_string(repository("sdk/rust/src/testing.rs")).unwrap();
    let header: String = module
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .fold(String::new(), |text, line| text + line.strip_prefix(' ').unwrap_or(line) + "\n");
    let (_, rest) = header.split_once("\n```\n").unwrap();
    let (example, _) = rest.split_once("\n```\n").unwrap();
    assert!(guide.contains(&format!("```rust\n{example}\n```")), "docs/skills-rust.md must contain:\n{example}");
}

/// Every control in docs/security.md names existing tests.
#[test]
fn tests_named_in_the_security_document_exist() {
    let text = fs::read_to_string(repository("docs/security.md")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ") && line.contains(" | ")).collect();
    let mut named = 0;
    let heads = ["| asset |", "| place |", "| --- |"];
    for row in rows.iter().filter(|row| !heads.iter().any(|head| row.starts_with(head))) {
        let tests: Vec<_> = row.split('`').filter(|code| code.contains(".rs#")).collect();
        assert!(!tests.is_empty(), "docs/security.md names no test for: {row}");
        for (file, function) in tests.iter().filter_map(|test| test.split_once('#')) {
            let source = fs::read_to_string(repository(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let (before, _) = source
                .split_once(&format!("fn {function}("))
                .unwrap_or_else(|| panic!("docs/security.md names {file}#{function}, which is not there"));
            // The attribute is on one of the lines above; a property test counts.
            let attribute =
                before.lines().rev().take(4).any(|line| line.contains("#[test]") || line.contains("::test"));
            assert!(attribute, "{file}#{function} is no test");
            named += 1;
        }
    }
    assert!(named > 60, "the tables are not found: {named} tests");
}

/// The entry for the registry of agents has this version and starts the front for editors. Its
/// fields follow the registry's schema.
#[test]
fn registry_entry_is_of_this_version() {
    let entry: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(repository("agent.json")).unwrap()).unwrap();
    let manifest: toml::Table = fs::read_to_string(repository("Cargo.toml")).unwrap().parse().unwrap();
    let package = &manifest["workspace"]["package"];
    assert_eq!(entry["version"].as_str(), package["version"].as_str());
    assert_eq!((entry["id"].as_str(), entry["license"].as_str()), (Some("patchbay"), package["license"].as_str()));
    let targets = entry["distribution"]["binary"].as_object().unwrap();
    let systems =
        ["darwin", "linux", "windows"].map(|system| ["aarch64", "x86_64"].map(|machine| format!("{system}-{machine}")));
    assert!(!targets.is_empty());
    for (target, of) in targets {
        assert!(systems.as_flattened().contains(target), "{target}");
        // As `dist/archive.py` names the archive and its only folder.
        let name = format!("patchbay-{}-{target}", package["version"].as_str().unwrap());
        assert_eq!((&of["cmd"], &of["args"]), (&format!("./{name}/patchbay").into(), &serde_json::json!(["acp"])));
        assert!(of["archive"].as_str().unwrap().ends_with(&format!("/{name}.tar.gz")));
    }
}

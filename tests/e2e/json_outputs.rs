//! Recorded `--json` output. Programs parse it, so every change must be intended. `INSTA_UPDATE=always` records it again. `doctor
//! --json` is missing because it describes the machine.

use std::{collections::BTreeMap, fmt::Write as _};

use patchbay_tests::{answers::json_lines, binary::Patchbay, guest::Guest};
use serde_json::Value;

/// Keys of numbers that differ from run to run.
const MEASURED: &[&str] = &["after", "age_s", "before", "fuel", "output_bytes", "peak_memory", "time_us"];

/// Replaces values that differ between runs or machines.
struct Mask {
    folder: String,
    /// The UUIDs in order of appearance.
    ids: BTreeMap<String, usize>,
}

impl Mask {
    fn value(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| self.value(key, value)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(key, item)),
            Value::Number(number) if MEASURED.contains(&key) || number.as_f64() > Some(1e9) => *value = "NUMBER".into(),
            Value::String(text) if is_time(text) => *value = "TIME".into(),
            // The length of the temporary folder's path is part of it.
            Value::String(text) if text.starts_with("Compacted: ") => {
                *text = "Compacted: NUMBER tokens became NUMBER.".to_owned();
            }
            Value::String(text) => *text = self.text(text),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) -> String {
        let text = text.replace(&self.folder, "FOLDER").replace(env!("CARGO_PKG_VERSION"), "VERSION");
        let mut masked = String::new();
        let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
        let mut rest = &*text;
        while let Some(start) = rest.find(is_part) {
            let (before, from) = rest.split_at(start);
            let (word, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
            masked += before;
            let is_uuid = word.len() == 36 && word.matches('-').count() == 4;
            let is_short = word.len() == 8 && word.bytes().any(|b| b.is_ascii_digit()) && !word.contains('-');
            let known = self.ids.iter().find(|(id, _)| is_short && id.starts_with(word)).map(|(_, number)| *number);
            match known {
                Some(number) => write!(masked, "<{number}>").unwrap(),
                None if is_uuid => {
                    let next = self.ids.len() + 1;
                    write!(masked, "<{}>", self.ids.entry(word.to_owned()).or_insert(next)).unwrap();
                }
                None if word.len() == 64 => masked += "DIGEST",
                None => masked += word,
            }
            rest = after;
        }
        masked + rest
    }
}

/// Returns whether a text is a time, such as `2026-11-26 21:01`.
fn is_time(text: &str) -> bool {
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let is_dash = |at: usize| text.as_bytes().get(at) == Some(&b'-');
    (0..4).all(is_digit) && is_dash(4) && is_digit(5) && is_digit(6) && is_dash(7) && is_digit(8) && is_digit(9)
}

#[test]
fn outputs_for_programs_are_the_recorded_ones() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[mcp.helper]\ncommand = [\"/bin/false\"]\n");
    patchbay.write("workspace/plain.wasm", Guest::default().component());
    patchbay.skill("guide", "command: guide\nsummary: How", "Mind it: $INPUT");
    let lines = [
        "/help calc",
        "/skills",
        "/commands",
        "/model demo-big",
        "/model nope",
        "/calc 6 * 7",
        "/calc 6 *",
        "/guide",
        "/guide the sea",
        "call calc__eval {\"expression\": \"1 + 1\"}",
        "fail auth 0",
        "/retry",
        "/drop",
        "/capture",
        "kept",
        "/fork \"say done\"",
        "/agents",
        "/mail-check",
        "/switch root",
        "/usage",
        "/history",
        "/reload_skills",
        "/compact",
        "/nope",
        "/",
        "/kill",
        "/quit",
    ];
    let session = "--session";
    let commands: Vec<(&str, Vec<&str>)> = vec![
        ("exec", [&["exec", "--json", "--keep-going"], &lines[..]].concat()),
        ("sessions", vec!["sessions", "--json"]),
        ("show", vec!["sessions", "show", session, "--json"]),
        ("tree", vec!["sessions", "show", session, "--tree", "--json"]),
        ("journal", vec!["journal", "--json"]),
        ("usage", vec!["usage", "--json"]),
        ("providers", vec!["provider", "list", "--json"]),
        ("mcp-list", vec!["mcp", "list", "--json"]),
        ("mcp-check", vec!["mcp", "check", "helper", "--json"]),
        ("inspect", vec!["plugin", "inspect", "--json", "plain.wasm"]),
    ];
    let mut mask = Mask { folder: patchbay.folder().display().to_string(), ids: BTreeMap::new() };
    for (name, mut command) in commands {
        let id = if name == "exec" { String::new() } else { patchbay.last_session() };
        command.iter_mut().filter(|word| **word == session).for_each(|word| *word = &*id);
        let ran = patchbay.run(&command);
        let mut shown = format!("exit code: {:?}\n", ran.code);
        for mut object in json_lines(&ran.out) {
            // The split of an answer into pieces depends on timing, and the sessions of the home's template are in no particular
            // order.
            if object["event"] == "delta" || (name == "usage" && object["session"] != *patchbay.last_session()) {
                continue;
            }
            mask.value("", &mut object);
            writeln!(shown, "{object}").unwrap();
        }
        insta::with_settings!({
            snapshot_path => "json_outputs", prepend_module_to_snapshot => false, omit_expression => true,
        }, {
            insta::assert_snapshot!(name, shown);
        });
    }
}

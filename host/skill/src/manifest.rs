mod frontmatter;
mod lenient;

use patchbay_core::{Code, Digest, Name, text};
use patchbay_policy::Capability;
use serde::{Deserialize, Serialize};

use crate::{Eligibility, Problem};

use frontmatter::{FrontmatterKeys, TextList};

/// What a SKILL.md says: its frontmatter, and the instructions below it. The form is that of agentskills.io with keys of
/// our own; every key is optional and may also stand under `metadata`, unknown keys are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// One line about it (`summary`, else `description`); empty where there is none.
    pub summary: String,
    /// Its version, as written.
    pub version: Option<String>,
    /// How `/skill` and its alias invoke it.
    pub invocation_mode: InvocationMode,
    /// Its alias.
    pub command: Option<Name>,
    /// What a front shows where its input is to come.
    pub input_hint: Option<String>,
    /// The tool that `tool_dispatch` calls: one of its own by its bare name, or any by its full name.
    pub command_tool: Option<String>,
    /// Tools that must be there: internal ones by their names, others by their full names.
    pub requires_tools: Vec<String>,
    /// What the system must be and have.
    pub eligibility: Eligibility,
    /// What it asks for.
    pub capabilities: Vec<RequestedCapability>,
    /// The Markdown below the frontmatter.
    pub instructions: Instructions,
}

/// How a skill is invoked by a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvocationMode {
    /// Its instructions go into the conversation.
    #[default]
    LlmOrchestration,
    /// Its `command_tool` is called, and no model is asked.
    ToolDispatch,
}

impl InvocationMode {
    /// As written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LlmOrchestration => "llm_orchestration",
            Self::ToolDispatch => "tool_dispatch",
        }
    }
}

/// A capability that a manifest asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedCapability {
    /// What.
    pub capability: Capability,
    /// What for.
    pub reason: Option<String>,
    /// Whether the skill can do without.
    pub optional: bool,
}

/// The Markdown below the frontmatter, by its content. Snapshots and the memory of files name it by its digest; the text
/// itself is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// The digest of the cleaned text.
    pub digest: Digest,
    /// Bytes of the cleaned text.
    pub bytes: u64,
}

impl Instructions {
    /// Names this text.
    pub fn of(text: &str) -> Self {
        Self { digest: Digest::of(text.as_bytes()), bytes: text.len() as u64 }
    }
}

/// A SKILL.md that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedSkillMd {
    /// What the frontmatter says.
    pub manifest: Manifest,
    /// The instructions, cleaned.
    pub instructions: String,
    /// Lines that could not be read as YAML and were read as if they were quoted (`frontmatter_mended`).
    pub mended: Vec<Problem>,
}

/// A summary is one line of a list.
const SUMMARY_CHARS: usize = 500;

impl Manifest {
    /// Reads the SKILL.md of the skill that is called `name` by its folder or file.
    ///
    /// # Errors
    /// `malformed_frontmatter`, `invalid_name`, `invalid_command_alias`.
    pub fn parse(skill_md: &str, name: &Name) -> Result<ParsedSkillMd, Problem> {
        let (frontmatter, instructions) =
            split(skill_md).map_err(|message| Problem::new(Code::MalformedFrontmatter, message))?;
        let (keys, mended) = match frontmatter::strict(frontmatter) {
            Ok(keys) => (keys, Vec::new()),
            Err(problem) => lenient::mend(frontmatter).ok_or(problem)?,
        };
        let instructions = text::clean(instructions).trim().to_owned();
        let manifest = manifest(keys, name, Instructions::of(&instructions))?;
        Ok(ParsedSkillMd { manifest, instructions, mended })
    }
}

/// Checks the keys of a frontmatter, one after the other.
fn manifest(mut keys: FrontmatterKeys, name: &Name, instructions: Instructions) -> Result<Manifest, Problem> {
    let malformed = |message: String| Problem::new(Code::MalformedFrontmatter, message);
    let mut under = keys.metadata.take().and_then(|metadata| metadata.0).map(|keys| *keys).unwrap_or_default();
    macro_rules! key {
        ($key:ident) => {
            keys.$key.take().or_else(|| under.$key.take())
        };
    }

    if let Some(written) = key!(name)
        && written != name.as_str()
    {
        let message = format!(
            "Name '{}' in SKILL.md is not '{name}', as its folder or file is called.",
            text::excerpt(&written, 80)
        );
        return Err(Problem::new(Code::InvalidName, message));
    }
    let invocation_mode = match key!(invocation_mode).as_deref() {
        None | Some("llm_orchestration") => InvocationMode::LlmOrchestration,
        Some("tool_dispatch") => InvocationMode::ToolDispatch,
        Some(other) => {
            let other = text::excerpt(other, 80);
            return Err(malformed(format!(
                "invocation_mode '{other}' is neither llm_orchestration nor tool_dispatch."
            )));
        }
    };
    let command = match key!(command) {
        None => None,
        Some(alias) => Some(alias.parse().map_err(|_| {
            let message = format!("Alias '{}' is no valid command name.", text::excerpt(&alias, 80));
            Problem::new(Code::InvalidCommandAlias, message)
        })?),
    };
    let mut capabilities = Vec::new();
    for asked in key!(capabilities).map(|asked| asked.0).unwrap_or_default() {
        let written = match asked.scope {
            Some(scope) => format!("{}:{scope}", asked.name),
            None => asked.name,
        };
        let capability: Capability = written.parse().map_err(|error| malformed(format!("capabilities: {error}.")))?;
        let reason = asked.reason.map(|reason| text::excerpt(&reason, SUMMARY_CHARS));
        capabilities.push(RequestedCapability { capability, reason, optional: asked.optional });
    }
    let line = |text: String| text::excerpt(&text, SUMMARY_CHARS);
    let list = |texts: Option<TextList>| texts.map(|texts| texts.0).unwrap_or_default();
    let eligibility = key!(eligibility).unwrap_or_default();
    let eligibility =
        Eligibility { os: list(eligibility.os), env: list(eligibility.env), binaries: list(eligibility.binaries) };
    Ok(Manifest {
        summary: key!(summary).or_else(|| key!(description)).map(line).unwrap_or_default(),
        version: key!(version).map(line),
        invocation_mode,
        command,
        input_hint: key!(input_hint).map(line).filter(|hint| !hint.is_empty()),
        command_tool: key!(command_tool).map(line),
        requires_tools: list(key!(requires_tools)).into_iter().map(line).collect(),
        eligibility: eligibility.cleaned(),
        capabilities,
        instructions,
    })
}

/// Parts the frontmatter from what is below it.
fn split(skill_md: &str) -> Result<(&str, &str), &'static str> {
    let text = skill_md.strip_prefix('\u{feff}').unwrap_or(skill_md);
    let rest = text
        .strip_prefix("---")
        .and_then(|rest| rest.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n'))
        .ok_or("SKILL.md does not begin with a line '---'.")?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Ok((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    Err("The frontmatter has no closing line '---'.")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(skill_md: &str) -> Result<ParsedSkillMd, Problem> {
        Manifest::parse(skill_md, &"calc".parse().unwrap())
    }

    fn read(skill_md: &str) -> Result<Manifest, Problem> {
        reading(skill_md).map(|reading| reading.manifest)
    }

    #[test]
    fn all_keys_are_optional() {
        for empty in ["---\n---\n", "---\n\n---", "---\r\n---\r\nbody", "\u{feff}---\n# a comment\n---\nbody"] {
            let manifest = read(empty).unwrap_or_else(|problem| panic!("{empty:?}: {problem:?}"));
            assert_eq!(manifest.invocation_mode, InvocationMode::LlmOrchestration);
            assert_eq!(manifest.summary, "");
        }
    }

    #[test]
    fn every_key_is_read_and_may_stand_under_metadata() {
        let keys = "summary: Sums\nversion: 1.10\ninvocation_mode: tool_dispatch\ncommand: sum\ninput_hint: a + b\n\
                    command_tool: eval\nrequires_tools: [other__tool]\n\
                    eligibility: {os: [linux, darwin], env: [HOME], binaries: [git]}\n\
                    capabilities:\n  - {name: kv, reason: keeps}\n  - {name: http, scope: a.example, optional: true}\n";
        let plain = read(&format!("---\nname: calc\nlicense: x\nunknown: [1]\n{keys}---\nDo it.\n")).unwrap();
        let indented: String = keys.lines().map(|line| format!("  {line}\n")).collect();
        let under = read(&format!("---\nname: calc\nmetadata:\n  author: me\n{indented}---\nDo it.\n")).unwrap();
        assert_eq!(plain, under);
        assert_eq!(plain.version.as_deref(), Some("1.10"));
        assert_eq!(plain.capabilities[1].capability.to_string(), "http:a.example");
        assert!(plain.capabilities[1].optional);
        assert_eq!(plain.eligibility.os, ["linux", "darwin"]);
        assert_eq!(plain.instructions, Instructions::of("Do it."));
    }

    #[test]
    fn description_stands_in_for_summary() {
        assert_eq!(read("---\ndescription: a\n  b\n---\n").unwrap().summary, "a b");
        assert_eq!(read("---\ndescription: a\nsummary: b\n---\n").unwrap().summary, "b");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let problem = |text: &str| {
            let problem = read(text).unwrap_err();
            (problem.code, problem.message)
        };
        assert_eq!(problem("hello").1, "SKILL.md does not begin with a line '---'.");
        assert_eq!(problem("---\nname: calc\n").1, "The frontmatter has no closing line '---'.");
        assert_eq!(problem("---\na: [\n---\n").0, Code::MalformedFrontmatter);
        assert_eq!(problem("---\njust text\n---\n").0, Code::MalformedFrontmatter);
        assert_eq!(
            problem("---\nname: other\n---\n"),
            (Code::InvalidName, "Name 'other' in SKILL.md is not 'calc', as its folder or file is called.".to_owned())
        );
        assert_eq!(problem("---\ncommand: /x\n---\n").0, Code::InvalidCommandAlias);
        assert_eq!(problem("---\ninvocation_mode: magic\n---\n").0, Code::MalformedFrontmatter);
        let (code, message) = problem("---\ncapabilities: [{name: files}]\n---\n");
        assert_eq!(code, Code::MalformedFrontmatter);
        assert!(message.contains("'files' is not a capability"), "{message}");
    }

    #[test]
    fn yaml_errors_name_the_line_and_the_key() {
        let problem = |text: &str| read(text).unwrap_err().message;
        assert_eq!(
            problem("---\nname: calc\nsummary: x\neligibility: {os: {linux: true}}\n---\n"),
            "Line 4: eligibility.os must be a list, such as [linux]."
        );
        assert_eq!(
            problem("---\neligibility:\n  env: [A]\n  binaries:\n    git: 1\n---\n"),
            "Line 5: eligibility.binaries must be a list, such as [git]."
        );
        assert_eq!(problem("---\nname: calc\nsummary: [a, b]\n---\n"), "Line 3: summary must be a text.");
        assert_eq!(
            problem("---\neligibility: linux\n---\n"),
            "Line 2: eligibility must have the keys os, env or binaries, such as {os: [linux]}."
        );
        let message = problem("---\nname: calc\nsummary: \"x\n---\n");
        assert!(message.starts_with("Line "), "{message}");
    }

    #[test]
    fn natural_spellings_are_read() {
        let manifest = read(
            "---\neligibility: {os: linux, env: HOME}\nrequires_tools: files__read\ncapabilities: [kv, \
             http:a.example]\nmetadata: text\n---\n",
        )
        .unwrap();
        assert_eq!((manifest.eligibility.os, manifest.eligibility.env), (vec!["linux".into()], vec!["HOME".into()]));
        assert_eq!(manifest.requires_tools, ["files__read"]);
        let asked: Vec<String> = manifest.capabilities.iter().map(|asked| asked.capability.to_string()).collect();
        assert_eq!(asked, ["kv", "http:a.example"]);
        let one = read("---\ncapabilities: {name: http, scope: a.example}\n---\n").unwrap();
        assert_eq!(one.capabilities[0].capability.to_string(), "http:a.example");
    }

    #[test]
    fn plain_text_is_mended_and_limits_are_kept() {
        let mended = reading(
            "---\nname: calc\ndescription: Use when: sums are wrong\nargument-hint: [a] [b]\neligibility: {os: \
             [darwin]}\n---\nDo it.",
        )
        .unwrap();
        assert_eq!(mended.manifest.summary, "Use when: sums are wrong");
        assert_eq!(mended.manifest.eligibility.os, ["darwin"]);
        let notes: Vec<_> = mended.mended.iter().map(|note| (note.code, &*note.message)).collect();
        assert_eq!(
            notes,
            [
                (Code::FrontmatterMended, "Line 3: 'description' was read as if it were quoted."),
                (Code::FrontmatterMended, "Line 4: 'argument-hint' was read as if it were quoted."),
            ]
        );
        for refused in [
            // Another key cannot be read strictly.
            "---\ndescription: a: b\neligibility: {os: [darwin]\n---\n",
            "---\ndescription: a: b\ncapabilities: [{name: files}]\n---\n",
            // Not on one line.
            "---\ndescription: a: b\n  goes on\n---\n",
            // Quoted, badly.
            "---\ndescription: \"a\" b\n---\n",
            // A key at the start of a line that is no key of the document.
            "---\ndescription: a: b\nlicense: 'x\neligibility: {os: [darwin]}\n  '\n---\n",
            "---\ncommand: a: b\n---\n",
        ] {
            assert!(read(refused).is_err(), "{refused}");
        }
        assert_eq!(reading("---\ndescription: a\n---\n").unwrap().mended, []);
    }

    #[test]
    fn aliases_of_yaml_do_not_explode() {
        let mut bomb = String::from("---\na0: &a0 [x, x]\n");
        for n in 1..40 {
            bomb += &format!("a{n}: &a{n} [*a{m}, *a{m}]\n", m = n - 1);
        }
        bomb += "requires_tools: *a39\n---\n";
        assert_eq!(read(&bomb).unwrap_err().code, Code::MalformedFrontmatter);
    }

    proptest! {
        /// Without the mended lines the text asks for the same and demands the same.
        #[test]
        fn mended_text_asks_for_no_more_and_loses_no_limit(
            lines in proptest::collection::vec(prop_oneof![
                "(description|summary|license|version|argument-hint): [a-z\\[\\]{}\"':,# ]{0,12}",
                Just("eligibility: {os: [darwin]}".to_owned()),
                Just("eligibility:".to_owned()),
                Just("  os: [darwin]".to_owned()),
                Just("capabilities: [kv]".to_owned()),
                Just("disable-model-invocation: true".to_owned()),
                "[ a-z\"'\\[\\]{}|>-]{0,6}",
            ], 0..7),
        ) {
            let skill_md = format!("---\n{}\n---\n", lines.join("\n"));
            if let Ok(read) = reading(&skill_md) {
                let place = |note: &Problem| -> usize {
                    note.message.strip_prefix("Line ").unwrap().split_once(':').unwrap().0.parse().unwrap()
                };
                let mended: Vec<usize> = read.mended.iter().map(place).collect();
                let kept = skill_md.lines().enumerate().filter(|(line, _)| !mended.contains(&(line + 1)));
                let kept: String = kept.map(|(_, line)| format!("{line}\n")).collect();
                let without = reading(&kept).unwrap();
                prop_assert_eq!(&without.manifest.eligibility, &read.manifest.eligibility);
                prop_assert_eq!(&without.manifest.capabilities, &read.manifest.capabilities);
                if !mended.is_empty() && lines.iter().any(|line| line == "eligibility: {os: [darwin]}") {
                    prop_assert_eq!(&read.manifest.eligibility.os, &["darwin"]);
                }
            }
        }

        #[test]
        fn nothing_makes_it_panic(front in "(\\PC|\n){0,200}", body in "\\PC{0,50}") {
            let _ = read(&front);
            let _ = read(&format!("---\n{front}\n---\n{body}"));
        }
    }
}

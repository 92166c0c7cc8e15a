use patchbay_core::{Code, Name, text};
use patchbay_policy::Capability;
use serde::{Deserialize, Serialize};

use crate::{Eligibility, Problem};

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
    /// Full names of tools that must be there.
    pub requires_tools: Vec<String>,
    /// What the system must be and have.
    pub eligibility: Eligibility,
    /// What it asks for.
    pub capabilities: Vec<RequestedCapability>,
    /// The Markdown below the frontmatter, cleaned.
    pub instructions: String,
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

/// The keys as they stand in the frontmatter, and again under `metadata`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    name: Option<String>,
    summary: Option<String>,
    description: Option<String>,
    version: Option<String>,
    invocation_mode: Option<String>,
    command: Option<String>,
    input_hint: Option<String>,
    command_tool: Option<String>,
    requires_tools: Option<Vec<String>>,
    eligibility: Option<Eligibility>,
    capabilities: Option<Vec<CapabilityKeys>>,
    metadata: Option<Box<Keys>>,
}

#[derive(Deserialize)]
struct CapabilityKeys {
    name: String,
    scope: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    optional: bool,
}

/// A summary is one line of a list.
const SUMMARY_CHARS: usize = 500;

impl Manifest {
    /// Reads the SKILL.md of the skill that is called `name` by its folder or file.
    ///
    /// # Errors
    /// `malformed_frontmatter`, `invalid_name`, `invalid_command_alias`.
    pub fn read(skill_md: &str, name: &Name) -> Result<Self, Problem> {
        let malformed = |message: String| Problem::new(Code::MalformedFrontmatter, message);
        let (frontmatter, instructions) = split(skill_md).map_err(|message| malformed(message.to_owned()))?;
        // An empty document is null, which is no mapping; all keys are optional, so it is a good one.
        let keys: Option<Keys> = match frontmatter.trim() {
            "" => None,
            yaml => serde_saphyr::from_str(yaml).map_err(|error| malformed(yaml_error(&error)))?,
        };
        let mut keys = keys.unwrap_or_default();
        let mut under = keys.metadata.take().map(|metadata| *metadata).unwrap_or_default();
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
        for asked in key!(capabilities).unwrap_or_default() {
            let written = match asked.scope {
                Some(scope) => format!("{}:{scope}", asked.name),
                None => asked.name,
            };
            let capability: Capability =
                written.parse().map_err(|error| malformed(format!("capabilities: {error}.")))?;
            let reason = asked.reason.map(|reason| text::excerpt(&reason, SUMMARY_CHARS));
            capabilities.push(RequestedCapability { capability, reason, optional: asked.optional });
        }
        let line = |text: String| text::excerpt(&text, SUMMARY_CHARS);
        Ok(Self {
            summary: key!(summary).or_else(|| key!(description)).map(line).unwrap_or_default(),
            version: key!(version).map(line),
            invocation_mode,
            command,
            input_hint: key!(input_hint).map(line).filter(|hint| !hint.is_empty()),
            command_tool: key!(command_tool).map(line),
            requires_tools: key!(requires_tools).unwrap_or_default().into_iter().map(line).collect(),
            eligibility: key!(eligibility).unwrap_or_default().cleaned(),
            capabilities,
            instructions: text::clean(instructions).trim().to_owned(),
        })
    }
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

/// The first line of the parser's words; the rest is a drawing of the source.
fn yaml_error(error: &serde_saphyr::Error) -> String {
    let words = error.to_string();
    let first = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("not valid YAML");
    format!("{}.", text::excerpt(first.trim_end_matches('.'), 300))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(skill_md: &str) -> Result<Manifest, Problem> {
        Manifest::read(skill_md, &"calc".parse().unwrap())
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
        assert_eq!(plain.instructions, "Do it.");
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
    fn aliases_of_yaml_do_not_explode() {
        let mut bomb = String::from("---\na0: &a0 [x, x]\n");
        for n in 1..40 {
            bomb += &format!("a{n}: &a{n} [*a{m}, *a{m}]\n", m = n - 1);
        }
        bomb += "requires_tools: *a39\n---\n";
        assert_eq!(read(&bomb).unwrap_err().code, Code::MalformedFrontmatter);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(front in "(\\PC|\n){0,200}", body in "\\PC{0,50}") {
            let _ = read(&front);
            let _ = read(&format!("---\n{front}\n---\n{body}"));
        }
    }
}

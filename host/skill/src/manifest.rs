//! The parsed SKILL.md: [`Manifest::parse`] splits the frontmatter from the instructions and checks every key.
//!
//! Called by [`discover`](crate::discover) and [`bundled`](crate::bundled) for each SKILL.md, and by the crate `plugin`
//! when it builds a skill.

mod frontmatter;
mod lenient;

use patchbay_core::{Code, Digest, Name, NameError, text};
use patchbay_policy::Capability;
use serde::{Deserialize, Serialize};

use crate::{Eligibility, Problem};

use frontmatter::{FrontmatterKeys, TextList};

/// A parsed SKILL.md: the keys of its frontmatter, and the instructions below it by digest.
///
/// The format is compatible with agentskills.io and Claude Code, and adds Patchbay's own keys. Every key is optional and can also
/// appear under `metadata`. Unknown keys are ignored, and listed in `unused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// One line for lists: `summary`, or else `description` followed by `when_to_use`. Empty if the file has none of these keys.
    pub summary: String,
    /// The version as written; not parsed.
    pub version: Option<String>,
    /// The effect of `/skill NAME` and of the alias.
    pub invocation_mode: InvocationMode,
    /// The alias: `/COMMAND` invokes the skill. `None` if the skill has no alias.
    pub command: Option<Name>,
    /// Placeholder that a front shows until there is input, such as `EXPRESSION`.
    pub input_hint: Option<String>,
    /// The tool that `tool_dispatch` calls: a tool of this skill by its bare name, or any tool
    /// by its full name `SKILL__TOOL`.
    pub command_tool: Option<String>,
    /// Tools that must exist, or the skill is left out of the snapshot: internal tools by name, others by full name.
    pub requires_tools: Vec<String>,
    /// Requirements for the operating system, environment and programs.
    pub eligibility: Eligibility,
    /// Capabilities that the skill requests. A request grants nothing.
    pub capabilities: Vec<RequestedCapability>,
    /// Digest and size of the text below the frontmatter.
    pub instructions: Instructions,
    /// The license as written, for display only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// The hosts and systems that the author had in mind, for display only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// The tools that the author expects, for display only. They neither grant nor hide anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Whether users, models or both may use the skill.
    #[serde(default, skip_serializing_if = "Audience::is_default")]
    pub audience: Audience,
    /// Names of top-level keys that have no meaning here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<String>,
}

/// Who can use a skill: the keys `disable-model-invocation` and `user-invocable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audience {
    /// Whether models see the skill and its tools.
    pub models: bool,
    /// Whether the skill is a command and appears in menus. `/skill NAME` always works.
    pub menus: bool,
}

impl Default for Audience {
    fn default() -> Self {
        Self { models: true, menus: true }
    }
}

impl Audience {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The effect of a command that names the skill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvocationMode {
    /// Adds the instructions to the conversation and runs a model turn.
    #[default]
    LlmOrchestration,
    /// Calls `command_tool` with the input; no model is involved.
    ToolDispatch,
}

impl InvocationMode {
    /// Returns the value as it is written in SKILL.md.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LlmOrchestration => "llm_orchestration",
            Self::ToolDispatch => "tool_dispatch",
        }
    }
}

/// One entry of `capabilities` in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedCapability {
    /// The requested capability with its scope.
    pub capability: Capability,
    /// The author's reason, shown when the user decides about the grant. `None` if there is no reason.
    pub reason: Option<String>,
    /// True if the skill also works without the capability.
    pub optional: bool,
}

/// Reference to the text below the frontmatter. Snapshots and the file cache only contain this reference; the text itself is in the
/// store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// The digest of the cleaned text.
    pub digest: Digest,
    /// Size of the cleaned text, in bytes.
    pub bytes: u64,
}

impl Instructions {
    /// Returns the reference to `text`, which must already be cleaned.
    pub fn of(text: &str) -> Self {
        Self { digest: Digest::of(text.as_bytes()), bytes: text.len() as u64 }
    }
}

/// The result of [`Manifest::parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedSkillMd {
    /// The checked keys of the frontmatter.
    pub manifest: Manifest,
    /// The text below the frontmatter, without control characters or surrounding white space.
    pub instructions: String,
    /// One `frontmatter_mended` problem for each line that is not valid YAML and was
    /// parsed as if its value were quoted.
    pub mended: Vec<Problem>,
}

/// The longest summary, reason or hint, in characters. Longer strings are cut, because each is shown on one line.
const SUMMARY_CHARS: usize = 500;
/// The longest description that agentskills.io allows, in characters.
pub(crate) const DESCRIPTION_CHARS: usize = 1_024;
/// Maximum number of entries of `allowed-tools` that are kept, and the longest entry in characters.
const ALLOWED_TOOLS: (usize, usize) = (100, 200);

impl Manifest {
    /// Parses the SKILL.md of the skill `name`. `name` comes from the skill's folder or
    /// file; a `name` key must equal it.
    ///
    /// # Errors
    /// `malformed_frontmatter`, `invalid_name`, `invalid_command_alias`.
    pub fn parse(skill_md: &str, name: &Name) -> Result<ParsedSkillMd, Problem> {
        let (frontmatter, instructions) =
            split(skill_md).map_err(|message| Problem::new(Code::MalformedFrontmatter, message))?;
        let (keys, parsed, mended) = match frontmatter::strict(frontmatter) {
            Ok(keys) => (keys, frontmatter.to_owned(), Vec::new()),
            Err(problem) => lenient::mend(frontmatter).ok_or(problem)?,
        };
        let instructions = text::clean(instructions).trim().to_owned();
        let manifest = manifest(keys, name, Instructions::of(&instructions))?;
        let manifest = Self { unused: lenient::unused(&parsed), ..manifest };
        Ok(ParsedSkillMd { manifest, instructions, mended })
    }
}

/// Returns the `description` of a SKILL.md on one line. [`Manifest`] does not contain it if there is a `summary`. Empty if there is
/// no description.
///
/// # Errors
/// `malformed_frontmatter`.
pub(crate) fn description(skill_md: &str) -> Result<String, Problem> {
    let (frontmatter, _) = split(skill_md).map_err(|message| Problem::new(Code::MalformedFrontmatter, message))?;
    let keys = match frontmatter::strict(frontmatter) {
        Ok(keys) => keys,
        Err(problem) => lenient::mend(frontmatter).ok_or(problem)?.0,
    };
    let under = keys.metadata.and_then(|metadata| metadata.0).and_then(|keys| keys.description);
    Ok(text::clean_line(&keys.description.or(under).unwrap_or_default()))
}

/// Checks the keys of a frontmatter in a fixed order, to always report the same problem first.
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
            "Name '{}' in SKILL.md differs from its folder or file, '{name}'. Write 'name: {name}'.",
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
                "invocation_mode '{other}' is neither llm_orchestration nor tool_dispatch. Write 'invocation_mode: tool_dispatch' \
                 if its command calls a tool; otherwise leave it out."
            )));
        }
    };
    let command = match key!(command) {
        None => None,
        Some(alias) => Some(alias.parse().map_err(|error: NameError| {
            let message = format!("Alias {error}.");
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
    let audience =
        Audience { models: key!(disable_model_invocation) != Some(true), menus: key!(user_invocable) != Some(false) };
    let input_hint = key!(input_hint).map(line).filter(|hint| !hint.is_empty());
    let argument_hint = key!(argument_hint).map(line).filter(|hint| !hint.is_empty());
    Ok(Manifest {
        summary: match key!(summary) {
            Some(summary) => line(summary),
            None => {
                let description = [key!(description), key!(when_to_use)].into_iter().flatten().collect::<Vec<_>>();
                text::excerpt(&description.join(" "), DESCRIPTION_CHARS)
            }
        },
        version: key!(version).map(line),
        invocation_mode,
        // An alias is a command, so a skill that is hidden from menus has none.
        command: command.filter(|_| audience.menus),
        input_hint: input_hint.or(argument_hint),
        command_tool: key!(command_tool).map(line),
        requires_tools: list(key!(requires_tools)).into_iter().map(line).collect(),
        eligibility: eligibility.cleaned(),
        capabilities,
        instructions,
        license: key!(license).map(line),
        compatibility: key!(compatibility).map(line),
        allowed_tools: key!(allowed_tools).map(|tools| tool_list(&tools)).unwrap_or_default(),
        audience,
        unused: Vec::new(),
    })
}

/// Splits the value of `allowed-tools`, with or without brackets, at white space and commas outside of parentheses, as in
/// `Bash(git add:*), Read`.
fn tool_list(tools: &str) -> Vec<String> {
    let mut depth = 0_u32;
    let is_end = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_whitespace())
    };
    let tools = tools.strip_prefix('[').and_then(|tools| tools.strip_suffix(']')).unwrap_or(tools);
    let tools = tools.split(is_end).filter(|tool| !tool.is_empty());
    tools.take(ALLOWED_TOOLS.0).map(|tool| text::excerpt(tool, ALLOWED_TOOLS.1)).collect()
}

/// Splits a SKILL.md into the frontmatter (without its `---` lines) and the text below it.
fn split(skill_md: &str) -> Result<(&str, &str), &'static str> {
    let text = skill_md.strip_prefix('\u{feff}').unwrap_or(skill_md);
    let rest = text
        .strip_prefix("---")
        .and_then(|rest| rest.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n'))
        .ok_or("SKILL.md does not begin with a line '---'. Write '---', then lines such as 'summary: Greets people', then '---'.")?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Ok((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    Err("The frontmatter has no closing line '---'. Write it above the instructions.")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(skill_md: &str) -> Result<ParsedSkillMd, Problem> {
        Manifest::parse(skill_md, &"calc".parse().unwrap())
    }

    fn manifest_of(skill_md: &str) -> Result<Manifest, Problem> {
        parse(skill_md).map(|parsed| parsed.manifest)
    }

    #[test]
    fn all_keys_are_optional() {
        for empty in ["---\n---\n", "---\n\n---", "---\r\n---\r\nbody", "\u{feff}---\n# a comment\n---\nbody"] {
            let manifest = manifest_of(empty).unwrap_or_else(|problem| panic!("{empty:?}: {problem:?}"));
            assert_eq!(manifest.invocation_mode, InvocationMode::LlmOrchestration);
            assert_eq!(manifest.summary, "");
        }
    }

    #[test]
    fn keys_are_read_at_top_level_and_under_metadata() {
        let keys = "summary: Sums\nversion: 1.10\ninvocation_mode: tool_dispatch\ncommand: sum\ninput_hint: a + b\n\
                    command_tool: eval\nrequires_tools: [other__tool]\n\
                    eligibility: {os: [linux, darwin], env: [HOME], binaries: [git]}\n\
                    capabilities:\n  - {name: kv, reason: keeps}\n  - {name: http, scope: a.example, optional: true}\n";
        let plain = manifest_of(&format!("---\nname: calc\nlicense: x\nunknown: [1]\n{keys}---\nDo it.\n")).unwrap();
        let indented: String = keys.lines().map(|line| format!("  {line}\n")).collect();
        let under = manifest_of(&format!("---\nname: calc\nmetadata:\n  author: me\n{indented}---\nDo it.\n")).unwrap();
        assert_eq!((plain.license.as_deref(), &plain.unused[..]), (Some("x"), &["unknown".to_owned()][..]));
        assert_eq!(Manifest { license: None, unused: Vec::new(), ..plain.clone() }, under);
        assert_eq!(plain.version.as_deref(), Some("1.10"));
        assert_eq!(plain.capabilities[1].capability.to_string(), "http:a.example");
        assert!(plain.capabilities[1].optional);
        assert_eq!(plain.eligibility.os, ["linux", "darwin"]);
        assert_eq!(plain.instructions, Instructions::of("Do it."));
    }

    #[test]
    fn description_is_used_without_summary() {
        assert_eq!(manifest_of("---\ndescription: a\n  b\n---\n").unwrap().summary, "a b");
        assert_eq!(manifest_of("---\ndescription: a\nsummary: b\n---\n").unwrap().summary, "b");
    }

    #[test]
    fn errors_name_the_problem() {
        let problem = |text: &str| {
            let problem = manifest_of(text).unwrap_err();
            (problem.code, problem.message)
        };
        assert_eq!(
            problem("hello").1,
            "SKILL.md does not begin with a line '---'. Write '---', then lines such as 'summary: Greets people', then '---'."
        );
        assert_eq!(
            problem("---\nname: calc\n").1,
            "The frontmatter has no closing line '---'. Write it above the instructions."
        );
        assert_eq!(problem("---\na: [\n---\n").0, Code::MalformedFrontmatter);
        assert_eq!(problem("---\njust text\n---\n").0, Code::MalformedFrontmatter);
        assert_eq!(
            problem("---\nname: other\n---\n"),
            (
                Code::InvalidName,
                "Name 'other' in SKILL.md differs from its folder or file, 'calc'. Write 'name: calc'.".to_owned()
            )
        );
        assert_eq!(
            problem("---\ncommand: Greet Me\n---\n"),
            (
                Code::InvalidCommandAlias,
                "Alias 'Greet Me' is not a valid name: use 1 to 64 of a-z, 0-9, '_' and '-', begin with a letter or digit, and do \
                 not use '__'."
                    .to_owned()
            )
        );
        assert_eq!(problem("---\ninvocation_mode: magic\n---\n").0, Code::MalformedFrontmatter);
        let (code, message) = problem("---\ncapabilities: [{name: files}]\n---\n");
        assert_eq!(code, Code::MalformedFrontmatter);
        assert!(message.contains("unknown capability 'files'"), "{message}");
    }

    #[test]
    fn yaml_errors_name_the_line_and_the_key() {
        let problem = |text: &str| manifest_of(text).unwrap_err().message;
        assert_eq!(
            problem("---\nname: calc\nsummary: x\neligibility: {os: {linux: true}}\n---\n"),
            "Line 4: eligibility.os must be a list, such as [linux]."
        );
        assert_eq!(
            problem("---\neligibility:\n  env: [A]\n  binaries:\n    git: 1\n---\n"),
            "Line 5: eligibility.binaries must be a list, such as [git]."
        );
        assert_eq!(
            problem("---\nname: calc\nsummary: [a, b]\n---\n"),
            "Line 3: summary must be a string, such as Greets a person by name."
        );
        assert_eq!(
            problem("---\neligibility: linux\n---\n"),
            "Line 2: eligibility must have the keys os, env or binaries, such as {os: [linux]}."
        );
        let message = problem("---\nname: calc\nsummary: \"x\n---\n");
        assert!(message.starts_with("Line "), "{message}");
    }

    #[test]
    fn short_forms_of_lists_are_accepted() {
        let manifest = manifest_of(
            "---\neligibility: {os: linux, env: HOME}\nrequires_tools: files__read\ncapabilities: [kv, \
             http:a.example]\nmetadata: text\n---\n",
        )
        .unwrap();
        assert_eq!((manifest.eligibility.os, manifest.eligibility.env), (vec!["linux".into()], vec!["HOME".into()]));
        assert_eq!(manifest.requires_tools, ["files__read"]);
        let asked: Vec<String> = manifest.capabilities.iter().map(|asked| asked.capability.to_string()).collect();
        assert_eq!(asked, ["kv", "http:a.example"]);
        let one = manifest_of("---\ncapabilities: {name: http, scope: a.example}\n---\n").unwrap();
        assert_eq!(one.capabilities[0].capability.to_string(), "http:a.example");
    }

    #[test]
    fn forms_of_other_hosts_are_read() {
        let manifest = manifest_of(
            "---\ndescription: Reads PDFs.\nwhen_to_use: When there is a PDF.\nlicense: MIT\ncompatibility: [git, jq]\n\
             allowed-tools: Bash(git add:*), Read  Write\nargument-hint: [file]\nhooks: {a: b}\nmodel: opus\n---\n",
        )
        .unwrap();
        assert_eq!(manifest.summary, "Reads PDFs. When there is a PDF.");
        assert_eq!((manifest.license.as_deref(), manifest.compatibility.as_deref()), (Some("MIT"), Some("[git, jq]")));
        assert_eq!(manifest.allowed_tools, ["Bash(git add:*)", "Read", "Write"]);
        assert_eq!(manifest.input_hint.as_deref(), Some("[file]"));
        assert_eq!(manifest.unused, ["hooks", "model"]);
        assert_eq!(manifest.audience, Audience::default());
        assert!(manifest.capabilities.is_empty(), "allowed-tools grants nothing");
        let list =
            manifest_of("---\nallowed-tools: [Read, 'Bash(a b)']\nlicense: {a: b}\ncompatibility:\n---\n").unwrap();
        assert_eq!(list.allowed_tools, ["Read", "Bash(a b)"]);
        assert_eq!((list.license, list.compatibility), (None, None));
        let long = manifest_of(&format!("---\ndescription: {}\n---\n", "x".repeat(2_000))).unwrap();
        assert_eq!(long.summary.chars().count(), DESCRIPTION_CHARS + 1);
    }

    #[test]
    fn audience_is_restricted_by_true_and_false_only() {
        let audience =
            |keys: &str| manifest_of(&format!("---\ncommand: go\n{keys}\n---\n")).map(|it| (it.audience, it.command));
        let alias = || Some("go".parse().unwrap());
        let people = audience("disable-model-invocation: true").unwrap();
        assert_eq!(people, (Audience { models: false, menus: true }, alias()));
        let models = audience("user-invocable: false").unwrap();
        assert_eq!(models, (Audience { models: true, menus: false }, None));
        assert_eq!(audience("user-invocable: true\ndisable-model-invocation: false").unwrap().0, Audience::default());
        let problem = audience("disable-model-invocation: [true]").unwrap_err();
        assert_eq!(problem.message, "Line 3: disable-model-invocation must be true or false.");
    }

    #[test]
    fn unquoted_text_is_mended_and_eligibility_is_kept() {
        let mended = parse(
            "---\nname: calc\ndescription: Use when: sums are wrong\nargument-hint: [a] [b]\neligibility: {os: \
             [darwin]}\nwhen_to_use: Not for: proofs\n---\nDo it.",
        )
        .unwrap();
        assert_eq!(mended.manifest.summary, "Use when: sums are wrong Not for: proofs");
        assert_eq!(mended.manifest.eligibility.os, ["darwin"]);
        let notes: Vec<_> = mended.mended.iter().map(|note| (note.code, &*note.message)).collect();
        assert_eq!(
            notes,
            [
                (Code::FrontmatterMended, "Line 3: 'description' was read as if it were quoted."),
                (Code::FrontmatterMended, "Line 4: 'argument-hint' was read as if it were quoted."),
                (Code::FrontmatterMended, "Line 6: 'when_to_use' was read as if it were quoted."),
            ]
        );
        for refused in [
            // Another key is not valid YAML.
            "---\ndescription: a: b\neligibility: {os: [darwin]\n---\n",
            "---\ndescription: a: b\ncapabilities: [{name: files}]\n---\n",
            // The value continues on the next line.
            "---\ndescription: a: b\n  goes on\n---\n",
            // The value is quoted, but not correctly.
            "---\ndescription: \"a\" b\n---\n",
            // A line begins with a key that the parsed document does not have.
            "---\ndescription: a: b\nlicense: 'x\neligibility: {os: [darwin]}\n  '\n---\n",
            "---\ncommand: a: b\n---\n",
        ] {
            assert!(manifest_of(refused).is_err(), "{refused}");
        }
        assert_eq!(parse("---\ndescription: a\n---\n").unwrap().mended, []);
    }

    #[test]
    fn yaml_alias_bomb_is_refused() {
        let mut bomb = String::from("---\na0: &a0 [x, x]\n");
        for n in 1..40 {
            bomb += &format!("a{n}: &a{n} [*a{m}, *a{m}]\n", m = n - 1);
        }
        bomb += "requires_tools: *a39\n---\n";
        assert_eq!(manifest_of(&bomb).unwrap_err().code, Code::MalformedFrontmatter);
    }

    proptest! {
        /// Capabilities and eligibility are the same as without the repaired lines.
        #[test]
        fn mended_lines_change_no_capability_and_no_eligibility(
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
            if let Ok(read) = parse(&skill_md) {
                let line_of = |note: &Problem| -> usize {
                    note.message.strip_prefix("Line ").unwrap().split_once(':').unwrap().0.parse().unwrap()
                };
                let mended: Vec<usize> = read.mended.iter().map(line_of).collect();
                let kept = skill_md.lines().enumerate().filter(|(line, _)| !mended.contains(&(line + 1)));
                let kept: String = kept.map(|(_, line)| format!("{line}\n")).collect();
                let without = parse(&kept).unwrap();
                prop_assert_eq!(&without.manifest.eligibility, &read.manifest.eligibility);
                prop_assert_eq!(&without.manifest.capabilities, &read.manifest.capabilities);
                if !mended.is_empty() && lines.iter().any(|line| line == "eligibility: {os: [darwin]}") {
                    prop_assert_eq!(&read.manifest.eligibility.os, &["darwin"]);
                }
            }
        }

        #[test]
        fn parsing_never_panics(front in "(\\PC|\n){0,200}", body in "\\PC{0,50}") {
            let _ = manifest_of(&front);
            let _ = manifest_of(&format!("---\n{front}\n---\n{body}"));
        }
    }
}

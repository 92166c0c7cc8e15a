//! Rewrites a SKILL.md for other clients: only the keys of agentskills.io, with the same instructions.

use patchbay_core::{Code, Name, text};

use crate::{
    Manifest, Problem,
    manifest::{self, DESCRIPTION_CHARS},
};

/// The longest `compatibility` that agentskills.io allows, in characters.
const COMPATIBILITY_CHARS: usize = 500;

/// A SKILL.md that strict clients accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortableSkillMd {
    /// The whole file.
    pub text: String,
    /// The description in it.
    pub description: String,
    /// The version, which the file has under `metadata`.
    pub version: Option<String>,
    /// The license in it.
    pub license: Option<String>,
    /// Patchbay's keys that the file cannot express, for a skill without a component.
    pub lost: Vec<&'static str>,
}

impl PortableSkillMd {
    /// Rewrites the SKILL.md of the skill `name`. Patchbay's own keys are kept under `metadata` if they fit, where only Patchbay
    /// looks for them.
    ///
    /// # Errors
    /// The errors of [`Manifest::parse`], and `malformed_frontmatter` or `invalid_name` for a skill that agentskills.io does not allow.
    pub fn of(skill_md: &str, name: &Name) -> Result<Self, Problem> {
        let parsed = Manifest::parse(skill_md, name)?;
        if name.as_str().contains('_') || name.as_str().ends_with('-') || name.as_str().contains("--") {
            let message = format!(
                "Other clients do not accept the name '{name}': use letters, digits and single '-' between them. Rename the skill's folder."
            );
            return Err(Problem::new(Code::InvalidName, message));
        }
        let description = portable_description(skill_md, &parsed.manifest)?;
        let Manifest { version, license, compatibility, allowed_tools, command, input_hint, .. } = &parsed.manifest;
        let mut keys = vec![("name", quoted_if_needed(name.as_str())), ("description", quoted(&description))];
        keys.extend(license.as_ref().map(|license| ("license", quoted(license))));
        keys.extend(
            compatibility
                .as_ref()
                .map(|needs| ("compatibility", quoted(&text::excerpt(needs, COMPATIBILITY_CHARS - 1)))),
        );
        if !allowed_tools.is_empty() {
            keys.push(("allowed-tools", quoted(&allowed_tools.join(" "))));
        }
        let metadata: Vec<_> = [
            ("version", version.as_deref()),
            ("command", command.as_ref().map(Name::as_str)),
            ("input_hint", input_hint.as_deref()),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some(format!("  {key}: {}\n", quoted(value?))))
        .collect();
        let mut text = "---\n".to_owned();
        for (key, value) in keys {
            text.push_str(&format!("{key}: {value}\n"));
        }
        if !metadata.is_empty() {
            text.push_str(&format!("metadata:\n{}", metadata.concat()));
        }
        text.push_str(&format!("---\n\n{}\n", parsed.instructions));
        let lost = lost(&parsed.manifest);
        Ok(Self { text, description, version: version.clone(), license: license.clone(), lost })
    }
}

/// Returns the `description`, which may be longer than the `summary`, or else the summary.
fn portable_description(skill_md: &str, parsed: &Manifest) -> Result<String, Problem> {
    let description = manifest::description(skill_md)?;
    let description = if description.is_empty() { parsed.summary.clone() } else { description };
    if description.is_empty() {
        let message =
            "Other clients need a description. Write a line such as 'description: Greets people by name' in SKILL.md.";
        return Err(Problem::new(Code::MalformedFrontmatter, message));
    }
    // One character less leaves room for the `…` of a cut description.
    let most = if description.chars().count() > DESCRIPTION_CHARS { DESCRIPTION_CHARS - 1 } else { DESCRIPTION_CHARS };
    Ok(text::excerpt(&description, most))
}

fn lost(manifest: &Manifest) -> Vec<&'static str> {
    let eligibility = &manifest.eligibility;
    let is_eligible = eligibility.os.is_empty() && eligibility.env.is_empty() && eligibility.binaries.is_empty();
    [
        ("capabilities", manifest.capabilities.is_empty()),
        ("command_tool", manifest.command_tool.is_none()),
        ("disable-model-invocation", manifest.audience.models),
        ("eligibility", is_eligible),
        ("requires_tools", manifest.requires_tools.is_empty()),
        ("user-invocable", manifest.audience.menus),
    ]
    .into_iter()
    .filter_map(|(key, is_default)| (!is_default).then_some(key))
    .collect()
}

/// Quotes a string as JSON, which is also valid YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Some clients read `name` without a YAML parser, so it is quoted only if YAML would read it as another type.
fn quoted_if_needed(name: &str) -> String {
    let is_word = matches!(name, "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n");
    if is_word || name.starts_with(|c: char| c.is_ascii_digit()) { quoted(name) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portable(skill_md: &str, name: &str) -> Result<PortableSkillMd, Problem> {
        PortableSkillMd::of(skill_md, &name.parse().unwrap())
    }

    #[test]
    fn only_keys_of_agentskills_are_written() {
        let written = portable(
            "---\nsummary: Short\ndescription: 'Does: \"all\"'\nversion: 1.2.0\ncommand: go\nlicense: MIT\nallowed-tools: [Read, Bash]\n\
             unknown: 1\neligibility: {os: [linux]}\ncapabilities: [kv]\nuser-invocable: true\n---\n\nDo *it*.\n\n---\nMore.\n\n",
            "greet",
        )
        .unwrap();
        assert_eq!(
            written.text,
            "---\nname: greet\ndescription: \"Does: \\\"all\\\"\"\nlicense: \"MIT\"\nallowed-tools: \"Read Bash\"\nmetadata:\n  \
             version: \"1.2.0\"\n  command: \"go\"\n---\n\nDo *it*.\n\n---\nMore.\n"
        );
        assert_eq!(written.lost, ["capabilities", "eligibility"]);
    }

    #[test]
    fn written_file_has_the_same_instructions() {
        for (name, skill_md) in [
            ("greet", "---\nsummary: Greets\n---\n\u{feff}Hello\r\nyou\u{7}\n"),
            ("true", "---\nmetadata:\n  description: Not a bool\n---\n"),
            ("7z", "---\ndescription: a # b\nwhen_to_use: |\n  x\n  y\n---\n```\n---\n```\n"),
        ] {
            let name: Name = name.parse().unwrap();
            let written = PortableSkillMd::of(skill_md, &name).unwrap();
            let again = Manifest::parse(&written.text, &name).unwrap();
            assert_eq!(again.instructions, Manifest::parse(skill_md, &name).unwrap().instructions);
            assert_eq!((again.mended, again.manifest.summary), (Vec::new(), written.description));
        }
    }

    #[test]
    fn skills_that_others_refuse_are_errors() {
        let problem = |skill_md: &str, name: &str| portable(skill_md, name).unwrap_err().code;
        assert_eq!(problem("---\nname: greet\n---\n", "greet"), Code::MalformedFrontmatter);
        assert_eq!(problem("---\nsummary: x\n---\n", "a_b"), Code::InvalidName);
        assert_eq!(problem("---\nsummary: x\n---\n", "a--b"), Code::InvalidName);
        assert_eq!(problem("---\nsummary: x\n---\n", "a-"), Code::InvalidName);
        let long = format!("---\ndescription: {}\n---\n", "x".repeat(2_000));
        assert_eq!(portable(&long, "a").unwrap().description.chars().count(), DESCRIPTION_CHARS);
    }
}

//! Texts of questions, shared by the fronts of this crate.

use patchbay_core::text;
use patchbay_session::{Approval, CalledTool, Question, QuestionSubject, SkillCapability};

/// Length limit of a folder in an offered answer, in characters. The line printed after the answer has the full path.
const FOLDER: usize = 30;

/// Returns the facts that the user should know before answering, the most important first.
pub(crate) fn details(question: &Question, has_several_agents: bool) -> Vec<String> {
    let mut details = question.subject.facts();
    details.push(format!("for {}", question.chain.join(" → ")));
    details.extend(question.subject.request());
    if question.only_once && matches!(question.subject, QuestionSubject::Capability(_)) {
        details.push("This workspace is or contains your home folder: a yes is for this act only.".to_owned());
    }
    details.extend(question.reason.as_ref().map(|reason| format!("the skill's reason: {reason}")));
    if let QuestionSubject::Capability(SkillCapability { capability, .. }) = &question.subject
        && capability.to_string().starts_with("workspace-")
    {
        details.push(format!("in {}", question.workspace));
    }
    if has_several_agents {
        details.push(format!("for agent {}", question.agent.short()));
    }
    details
}

/// Returns the whole question: a line for its title and for each detail.
pub(crate) fn whole(question: &Question) -> String {
    let title = text::clean_line(&question.subject.title());
    let diff = question.subject.diff().map(ToString::to_string);
    let mut details = details(question, true);
    if let Some(grant) = &question.grant {
        details.push(format!("3 is {}", grant.what));
        details.push(format!("to take it back: {}", grant.take_back));
        details.extend(grant.scope.clone());
    }
    if question.allows(Approval::Session) {
        details.push("any other yes ends at the latest when you leave the session".to_owned());
    }
    let details = details.into_iter().map(|line| text::clean_line(&line));
    std::iter::once(title).chain(diff).chain(details).collect::<Vec<_>>().join("\n")
}

/// Returns the key and the label of an answer; `None` for an answer that the terminal does not offer.
pub(crate) fn key_of(question: &Question, answer: Approval) -> Option<String> {
    // If the skill requests several hosts, a lasting answer applies only to the host in question.
    let (part, wide) = match &question.subject {
        QuestionSubject::Capability(SkillCapability { capability, offered, .. }) if capability != offered => {
            let part = offered.to_string();
            (format!(", {}", part.strip_prefix("http:").unwrap_or(&part)), Some(capability))
        }
        _ => (String::new(), None),
    };
    match answer {
        Approval::Once => Some("1 once".to_owned()),
        Approval::Call => Some(format!("c this whole call{part}")),
        Approval::Exact => Some("e exactly this again".to_owned()),
        Approval::Folder => {
            let folder = text::excerpt(question.subject.folder().unwrap_or_default(), FOLDER);
            Some(format!("f all below {folder}/"))
        }
        Approval::Session => Some(format!("2 this session{part}")),
        Approval::Always => question.grant.as_ref().map(|_| match &question.subject {
            QuestionSubject::Tool(CalledTool { only_this_input: true, .. }) => "3 exactly this, always here".to_owned(),
            _ => format!("3 always here{part}"),
        }),
        Approval::Wide => wide.map(|wide| format!("a this session, all of '{wide}'")),
        Approval::No => Some("Esc no  n no, and why".to_owned()),
        Approval::Never => None,
    }
}

/// Returns the line that reports the user's decision; `None` for `always`, whose line is printed
/// when the grant is stored.
pub(crate) fn decided(question: &Question, answer: Approval) -> Option<String> {
    let decided = question.subject.decided(answer);
    match answer {
        Approval::Once => Some(format!("Allowed once: {decided}.")),
        Approval::Call => Some(format!("Allowed for this whole call: {decided}.")),
        Approval::Exact => Some(format!("Allowed for this session, until you leave it, exactly so: {decided}.")),
        Approval::Session | Approval::Wide | Approval::Folder => {
            Some(format!("Allowed for this session, until you leave it: {decided}."))
        }
        Approval::Always => None,
        Approval::No | Approval::Never => Some(format!("Not allowed: {decided}.")),
    }
}

/// Returns the answer that belongs to a key.
pub(crate) fn answer_of(key: char) -> Option<Approval> {
    match key {
        '1' => Some(Approval::Once),
        'c' => Some(Approval::Call),
        'e' => Some(Approval::Exact),
        'f' => Some(Approval::Folder),
        '2' => Some(Approval::Session),
        '3' => Some(Approval::Always),
        'a' => Some(Approval::Wide),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use patchbay_core::{AgentId, Asker, Digest, PrincipalId};
    use patchbay_session::{Act, Identity, OfferedGrant, Root};

    use super::*;

    pub(crate) const VIEW: AgentId = AgentId::from_bytes([0xab; 16]);
    const KEEPS: &str = "Store the key k of this session";

    pub(crate) fn keeper(capability: &str) -> QuestionSubject {
        QuestionSubject::Capability(SkillCapability {
            act: Box::new(Act {
                title: format!("{KEEPS}: 3 bytes"),
                lines: vec!["value: \"yes\"".to_owned()],
                diff: None,
                path: None,
                digest: Digest::of(b"act"),
                digest_again: None,
            }),
            skill: Identity::new(Root::User, "", "keeper".parse().unwrap()),
            offered: capability.parse().unwrap(),
            capability: capability.parse().unwrap(),
            digest: Digest::from_bytes([0x11; 32]),
        })
    }

    pub(crate) fn question() -> Question {
        Question {
            agent: VIEW,
            asker: Asker::Person(PrincipalId::LOCAL),
            subject: keeper("kv"),
            chain: vec!["ask__run".to_owned(), "keeper__run".to_owned()],
            workspace: "/w".to_owned(),
            reason: Some("keeps your notes".to_owned()),
            only_once: false,
            grant: Some(OfferedGrant {
                what: "patchbay grant add --in /w keeper kv".to_owned(),
                take_back: "patchbay grant remove --in /w keeper kv".to_owned(),
                scope: Some(format!("for the skill's files {}", Digest::from_bytes([0x11; 32]))),
            }),
        }
    }
}

//! Questions to the user: `session/request_permission`. A refusal means no. A cancelled request or an error means no as well if the
//! client is the editor that started this process; from a remote client, it leaves the question to the other clients. `task` names
//! the tool call that a question belongs to.

use patchbay_session::{Approval, ClientIdentity, OpenQuestion, Question};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{transcript::ShownQuestion, update::call_text};
use patchbay_jsonrpc::{Client, RpcError};

#[derive(Deserialize)]
struct PermissionResponse {
    outcome: PermissionOutcome,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionOutcome {
    option_id: Option<String>,
}

/// Asks the client and passes on its answer. If the future is dropped, the question is withdrawn. A disconnect does not count
/// as an answer.
pub(super) async fn ask(
    client: Client,
    session: &str,
    shown: &ShownQuestion,
    asked: &OpenQuestion,
    identity: Option<&ClientIdentity>,
) {
    let choices = choices(&asked.question, identity);
    let params = params(session, shown, &asked.question, &choices);
    let response = client.request::<PermissionResponse>("session/request_permission", &params).await;
    if response.as_ref().is_err_and(RpcError::is_peer_left) {
        return;
    }
    let chosen = response.ok().and_then(|PermissionResponse { outcome }| outcome.option_id);
    let approval = choices.into_iter().map(|(approval, _)| approval);
    let approval = approval.into_iter().find(|approval| chosen.as_deref() == Some(approval.as_str()));
    if approval.is_none() && identity.is_some() {
        return;
    }
    // Another client may have been first, or the call was stopped.
    asked.answer(approval.unwrap_or(Approval::No), identity);
}

/// Returns the request's parameters. They repeat the call's title and content, because clients overwrite both.
fn params(
    session: &str,
    ShownQuestion { topic, call }: &ShownQuestion,
    question: &Question,
    choices: &[(Approval, String)],
) -> Value {
    let mut content = vec![call_text(&question_text(topic, question))];
    content.extend_from_slice(&call.content);
    let options: Vec<Value> = choices
        .iter()
        .map(|(approval, name)| json!({"optionId": approval.as_str(), "name": name, "kind": kind(*approval)}))
        .collect();
    json!({
        "sessionId": session,
        "toolCall": {"toolCallId": call.id, "title": call.title, "content": content},
        "options": options,
    })
}

/// Returns the text of a question. Clients render it as Markdown, so everything that the host did not write is put in
/// code fences. Otherwise a link, an image or a tag in a command could hide a part of the command.
fn question_text(topic: &str, question: &Question) -> String {
    let mut parts = vec![topic.to_owned(), fenced(&question.subject.title())];
    parts.extend(question.subject.diff().map(|diff| fenced(&diff.to_string())));
    let facts = question.subject.facts();
    if !facts.is_empty() {
        parts.push(fenced(&facts.join("\n")));
    }
    parts.push(format!("for {}", question.chain.join(" > ")));
    if let Some(reason) = &question.reason {
        parts.push(format!("the skill's reason:\n{}", fenced(reason)));
    }
    if let Some(grant) = &question.grant {
        parts.push(format!("'always' stores this, in this workspace:\n{}", fenced(&grant.what)));
        parts.push(format!("to take it back:\n{}", fenced(&grant.take_back)));
        parts.extend(grant.scope.clone());
    }
    parts.join("\n\n")
}

/// Returns `text` as a fenced code block. The fence is longer than any run of backticks in the text.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}\n{text}\n{fence}")
}

/// Returns the answers to offer to a client, with their names.
fn choices(question: &Question, client: Option<&ClientIdentity>) -> Vec<(Approval, String)> {
    // Clients cannot tell two kinds of "always" apart, so only one is offered: the grant or, if no grant can be given, the
    // whole session.
    let may_grant = client.is_none_or(|client| client.may.grants);
    let always = [Approval::Always, Approval::Session].into_iter();
    let always = always.filter(|approval| may_grant || *approval != Approval::Always).find(|it| question.allows(*it));
    let [call, exact, folder, wide] = [Approval::Call, Approval::Exact, Approval::Folder, Approval::Wide]
        .map(|approval| question.allows(approval).then_some(approval));
    // Some clients only offer the first answer of each kind, so the grant comes before the answers for the session.
    let all = [Some(Approval::Once), call, always, exact, folder, wide, Some(Approval::No), Some(Approval::Never)];
    all.into_iter().flatten().map(|approval| (approval, name(approval, question))).collect()
}

fn name(approval: Approval, question: &Question) -> String {
    match approval {
        Approval::Once => "Allow once".to_owned(),
        Approval::Call => "Allow for this whole call".to_owned(),
        Approval::Exact => "Allow exactly this again in this session".to_owned(),
        Approval::Session => "Allow for this session".to_owned(),
        Approval::Wide | Approval::Folder => {
            format!("Allow for this session: {}", question.subject.decided(approval))
        }
        Approval::Always => {
            format!("Always, in this workspace: {}", question.subject.decided(Approval::Always))
        }
        Approval::No => "Do not allow".to_owned(),
        Approval::Never => "Do not allow in this session".to_owned(),
    }
}

fn kind(approval: Approval) -> &'static str {
    match approval {
        Approval::Once | Approval::Call => "allow_once",
        Approval::Exact | Approval::Folder | Approval::Session | Approval::Always | Approval::Wide => "allow_always",
        Approval::No => "reject_once",
        Approval::Never => "reject_always",
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{AgentId, Asker, Digest, PrincipalId};
    use patchbay_session::{
        Act, CalledTool, FileDiff, Identity, OfferedGrant, QuestionSubject, Root, SkillCapability, command_line,
    };
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

    use super::*;

    fn question(subject: QuestionSubject, reason: Option<&str>) -> Question {
        Question {
            agent: AgentId::from_bytes([1; 16]),
            asker: Asker::Person(PrincipalId::LOCAL),
            subject,
            chain: vec!["code__run".to_owned(), "mcp__bank__transfer_all".to_owned()],
            workspace: "/w".to_owned(),
            reason: reason.map(str::to_owned),
            only_once: false,
            grant: Some(OfferedGrant {
                what: "patchbay grant add --root workspace --workspace '/a `b` <i>' keeper kv".to_owned(),
                take_back: "patchbay grant remove --root workspace --workspace '/a `b` <i>' keeper kv".to_owned(),
                scope: Some(format!("for the skill's files {}", Digest::of(b""))),
            }),
        }
    }

    fn running(input: String) -> QuestionSubject {
        QuestionSubject::Tool(CalledTool {
            name: "terminal__run".to_owned(),
            input_digest: Digest::of(input.as_bytes()),
            input,
            digest: Digest::of(b""),
            is_destructive: true,
            notes: Vec::new(),
            only_this_input: false,
        })
    }

    /// Returns the code blocks of a text as a Markdown renderer shows them, and the text outside of them.
    fn rendered(text: &str) -> (Vec<String>, String) {
        let (mut blocks, mut rest, mut is_code) = (Vec::new(), String::new(), false);
        for event in Parser::new_ext(text, Options::all() - Options::ENABLE_SMART_PUNCTUATION) {
            match event {
                Event::Start(Tag::CodeBlock(_)) => {
                    is_code = true;
                    blocks.push(String::new());
                }
                Event::End(TagEnd::CodeBlock) => is_code = false,
                Event::Text(text) if is_code => blocks.last_mut().unwrap().push_str(&text),
                Event::Text(text) => rest.push_str(&text),
                Event::SoftBreak | Event::Start(Tag::Paragraph) | Event::End(TagEnd::Paragraph) => rest.push('\n'),
                other => panic!("{other:?} in {text}"),
            }
        }
        let blocks = blocks.iter().map(|block| block.strip_suffix('\n').unwrap().to_owned()).collect();
        (blocks, rest)
    }

    /// Inputs with which a command once hid a part of itself from Markdown renderers, and similar inputs.
    #[test]
    fn question_shows_what_it_asks_in_any_renderer() {
        let words: [&[&str]; 6] = [
            &["sh", "-c", r#"echo testing; : "[done](<"; touch HIDDEN-1; : ">)""#],
            &["sh", "-c", r#"echo testing; : "<b t='"; touch HIDDEN-2; : "'>""#],
            &["env", "git", "status", "![](<", ">)", "-c"],
            &["sh", "-c", "```\n````` ~~~ ``` rm -r ~"],
            &["<!--", "rm", "-->", "&lt;", "\\`", "**a**", "| a |", "$x$", "- [ ] a", "[^1]: a"],
            &["`````````"],
        ];
        for words in words {
            let line = command_line(words.iter().copied());
            let asked = question(running(line), Some("<b>[good](x) ``` ![](y)"));
            let (blocks, rest) = rendered(&question_text(&asked.subject.topic(), &asked));
            let grant = asked.grant.as_ref().unwrap();
            let expected = [
                asked.subject.title(),
                asked.subject.facts().join("\n"),
                asked.reason.clone().unwrap(),
                grant.what.clone(),
                grant.take_back.clone(),
            ];
            assert_eq!(blocks, expected);
            assert!(rest.contains("for code__run > mcp__bank__transfer_all"), "{rest}");
        }
    }

    #[test]
    fn act_of_a_skill_is_shown_as_it_is() {
        let act = Act {
            title: "Create '[a](b).md': +1".to_owned(),
            lines: Vec::new(),
            diff: Some(FileDiff::new("", "``` <b>\n")),
            path: Some("docs/[a](b).md".to_owned()),
            digest: Digest::of(b"act"),
            digest_again: None,
        };
        let subject = QuestionSubject::Capability(SkillCapability {
            act: Box::new(act.clone()),
            skill: Identity::new(Root::User, "", "keeper".parse().unwrap()),
            capability: "workspace-write".parse().unwrap(),
            offered: "workspace-write".parse().unwrap(),
            digest: Digest::of(b"files"),
        });
        let asked = question(subject, None);
        let (blocks, rest) = rendered(&question_text(&asked.subject.topic(), &asked));
        assert_eq!(blocks[..2], [format!("{}?", act.title), "1 + ``` <b>".to_owned()]);
        assert!(rest.contains("the user skill 'keeper' asks for 'workspace-write'"), "{rest}");
        let names: Vec<_> = choices(&asked, None).into_iter().map(|(approval, name)| (kind(approval), name)).collect();
        let expected = [
            ("allow_once", "Allow once"),
            ("allow_once", "Allow for this whole call"),
            ("allow_always", "Always, in this workspace: 'workspace-write' for the user skill 'keeper'"),
            ("allow_always", "Allow exactly this again in this session"),
            ("allow_always", "Allow for this session: 'workspace-write' below docs/ for the user skill 'keeper'"),
            ("reject_once", "Do not allow"),
            ("reject_always", "Do not allow in this session"),
        ];
        assert_eq!(names, expected.map(|(kind, name)| (kind, name.to_owned())));
    }
}

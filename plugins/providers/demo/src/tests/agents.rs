//! Tests of conversations between several agents: identity, variables and mail.

use patchbay_provider_sdk::{Block, Message, Piece, Role, ToolCall, ToolResult};
use proptest::prelude::*;

use super::host::{Completed, part, person, request, result, run, text, user};

const ROOT: &str = "00000000-0000-4000-8000-0000000000aa";
const CHILD: &str = "00000000-0000-4000-8000-0000000000bb";
const ONE: &str = "[Notification: You have 1 unread message in your inbox]";
const TWO: &str = "[Notification: You have 2 unread messages in your inbox]";

fn root() -> String {
    format!("You are the agent {ROOT}. You have no parent.")
}

fn child() -> String {
    format!("You are the agent {CHILD}. Your parent is {ROOT}.")
}

/// A conversation that grows by texts and results, as the host builds it.
struct Conversation {
    messages: Vec<Message>,
}

impl Conversation {
    /// Begins the conversation of the root.
    fn new(said: &str) -> Self {
        Self { messages: vec![user(vec![text(&root()), text(said)])] }
    }

    /// Returns the conversation of a child that is forked here.
    fn fork(&self, said: &str) -> Self {
        let mut fork = Self { messages: self.messages.clone() };
        fork.user([text(&child()), text(said)]);
        fork
    }

    fn answer(&self) -> Completed {
        run(request(self.messages.clone()))
    }

    /// Adds the answer, and a text of the user.
    fn say(&mut self, said: &str) -> Completed {
        let answer = self.keep();
        self.user([text(said)]);
        answer
    }

    /// Adds the answer, and results of its calls. Returns the answer.
    fn results<const N: usize>(&mut self, results: [(&str, &str); N]) -> Completed {
        let answer = self.keep();
        assert_eq!(answer.calls().len(), N, "{answer:?}");
        let calls = answer.calls();
        let results: Vec<_> = calls.iter().zip(results).map(|(call, (name, it))| result(call.0, name, it)).collect();
        self.user(results);
        answer
    }

    fn keep(&mut self) -> Completed {
        let answer = self.answer();
        // The host stores no message without parts.
        self.messages.extend(Some(answer.message()).filter(|message| !message.parts.is_empty()));
        answer
    }

    /// Texts and results join the last message of the user.
    fn user(&mut self, parts: impl IntoIterator<Item = patchbay_provider_sdk::Part>) {
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User => last.parts.extend(parts),
            _ => self.messages.push(user(parts.into_iter().collect())),
        }
    }
}

fn success(result: &str) -> String {
    format!(r#"{{"tool_success":true,"result":{result}}}"#)
}

fn forked(uuid: &str) -> String {
    success(&format!(r#"{{"child_uuid":"{uuid}"}}"#))
}

fn inbox(mails: &[(u64, &str)]) -> String {
    let mail = |(number, from): &(u64, &str)| {
        format!(r#"{{"number":{number},"from":"{from}","sent_at":"","read":false,"preview":"x"}}"#)
    };
    let mails: Vec<_> = mails.iter().map(mail).collect();
    success(&format!(r#"{{"messages":[{}],"unread":{}}}"#, mails.join(","), mails.len()))
}

fn mail(message: &str) -> String {
    success(&format!(r#"{{"number":1,"from":"{CHILD}","sent_at":"","message":{message}}}"#))
}

#[test]
fn identity_is_never_echoed() {
    assert_eq!(Conversation::new("hi").answer().text(), "You said: hi");
    assert_eq!(Conversation::new("say $self $parent").answer().text(), format!("{ROOT} none"));
    let mut talk = Conversation::new("hi");
    talk.say("again");
    assert_eq!(talk.answer().text(), "You said: again");
    let fork = talk.fork("hello");
    assert_eq!(fork.answer().text(), "You said: hello");
    assert_eq!(talk.fork("say $self $parent").answer().text(), format!("{CHILD} {ROOT}"));
    // Without an identity text, `$self` and `$parent` are unknown.
    assert_eq!(run(request(vec![person("say $self $parent")])).text(), "none none");
    let alone = vec![user(vec![text(&root())])];
    assert_eq!(run(request(alone)).text(), "You said nothing.");
    // The host's texts about the session's start do not count as the user's; the same words later do.
    let start =
        ["At the start of this session:\ndate: x", "Instructions for agents in /a, above the workspace.\n\nsay no"];
    let told = vec![text(&root()), text(start[0]), text(start[1]), text("hi")];
    assert_eq!(run(request(vec![user(told)])).text(), "You said: hi");
    assert_eq!(Conversation::new(start[1]).fork(start[1]).answer().text(), "You said nothing.");
    talk.say(start[1]);
    assert_eq!(talk.answer().text(), "no");
    let mut summary = Conversation::new("hi");
    summary.user([text("Summarise the conversation so far.")]);
    assert_eq!(summary.answer().text(), "Summary: 1 message, last: hi");
}

#[test]
fn other_texts_are_not_identities() {
    let upper = root().replace('a', "A").replace("You Are the Agent", "You are the agent");
    for other in [
        format!("{} Really.", root()),
        format!(" {}", root()),
        child().replace("-4000", "04000"),
        format!("You are the agent {CHILD}. Your parent is you."),
        format!("You are the agent {CHILD}."),
        "You are the agent ä".to_owned(),
        upper,
    ] {
        assert_eq!(run(request(vec![person(&other)])).text(), format!("You said: {}", other.trim()));
    }
    // A text of the model is never an identity text.
    let mut talk = Conversation::new(&format!("say {}", child()));
    talk.say("say $self");
    assert_eq!(talk.answer().text(), ROOT);
}

#[test]
fn child_has_nothing_of_its_parent() {
    let mut talk = Conversation::new("on mail say of the parent\ncall fork {}\ncall mail_check {}\nthen call a {}");
    talk.results([("fork", &forked(CHILD)), ("mail_check", &inbox(&[(7, CHILD)]))]);
    assert_eq!(talk.fork("say $child1 $mail1 $from1").answer().text(), "none none none");
    // The results are in one message with the texts of the child, and the numbers of its calls continue.
    let calls = talk.fork("say hello\ncall b {}").answer();
    assert_eq!((calls.text(), calls.calls()), ("hello", vec![("call_3", "b", "{}")]));
    assert_eq!(talk.fork("hello").answer().text(), "You said: hello");
    let mut fork = talk.fork("hello");
    fork.say(ONE);
    assert_eq!(fork.answer().text(), format!("You said: {ONE}"));
    // The parent's conversation continues unchanged.
    assert_eq!(talk.answer().calls(), [("call_3", "a", "{}")]);
    // Rounds are counted separately in the child.
    let mut fork = talk.fork("call c {}\nthen say $child1");
    fork.results([("c", "1")]);
    assert_eq!(fork.answer().text(), "none");
}

#[test]
fn children_are_in_the_order_of_their_calls() {
    let mut talk = Conversation::new(
        "call fork {\"prompt\":\"say $$parent\"}\ncall fork {}\ncall fork {}\ncall forks {}\n\
         then call mail_send {\"to\":\"$child1\",\"message\":\"$self\"}\nthen say $child1 $child2 $child3 $child0",
    );
    let asked = talk.results([
        ("fork", &forked("one")),
        ("fork", r#"{"tool_success":false,"error":"no","error_code":"limit_agents"}"#),
        ("fork", &forked("two")),
        ("forks", &forked("other")),
    ]);
    assert_eq!(asked.calls()[0].2, r#"{"prompt":"say $parent"}"#);
    let sent = talk.results([("mail_send", &success("{}"))]);
    assert_eq!(sent.calls()[0].2, format!(r#"{{"to":"one","message":"{ROOT}"}}"#));
    assert_eq!(talk.answer().text(), "one two none none");
    talk.say("call fork {}\nthen say $child3");
    talk.results([("fork", &forked("three"))]);
    assert_eq!(talk.answer().text(), "three");
}

#[test]
fn mail_variables_are_of_the_last_listing() {
    let mut talk = Conversation::new(
        "call mail_check {}\nthen call mail_filter {}\nthen call mail_check {}\nthen say $mail1 $from1 $mail2 $from2",
    );
    talk.results([("mail_check", &inbox(&[(7, CHILD), (3, ROOT)]))]);
    talk.results([("mail_filter", &inbox(&[(4, ROOT)]))]);
    talk.results([("mail_check", r#"{"tool_success":false,"error":"x"}"#)]);
    assert_eq!(talk.answer().text(), format!("4 {ROOT} none none"));
    talk.say("call mail_read {\"number\":$mail1}\ncall mail_read {\"number\":$mail9}");
    let inputs: Vec<_> = talk.answer().calls().iter().map(|call| call.2.to_owned()).collect();
    assert_eq!(inputs, [r#"{"number":4}"#, r#"{"number":none}"#]);
}

#[test]
fn messages_are_of_the_current_turn() {
    let mut talk = Conversation::new(
        "call mail_read {}\ncall mail_read {}\ncall mail_read {}\n\
         then call tell {\"it\":\"$message1\"}\nthen say $message1|$message2|$message3",
    );
    talk.results([
        ("mail_read", &mail(r#""a \"b\"\n$self""#)),
        ("mail_read", r#"{"tool_success":false,"error":"x"}"#),
        ("mail_read", &mail("\"two\"")),
    ]);
    let told = talk.results([("tell", "")]);
    assert_eq!(told.calls()[0].2, r#"{"it":"a \"b\"\n$self"}"#);
    assert_eq!(talk.answer().text(), "a \"b\"\n$self|two|none");
    talk.say("say $message1");
    assert_eq!(talk.answer().text(), "none");
}

#[test]
fn other_dollars_stay() {
    for (said, answer) in [
        ("say $", "$"),
        ("say $$", "$"),
        ("say $$$self", &format!("${ROOT}")),
        ("say $5 $selfish $self_ $parents $child $child1a $childä $Self $mail-1", ""),
        ("say ${self} $ $ä", ""),
        ("say $self, '$parent'", &format!("{ROOT}, 'none'")),
        ("say $child99999999999999999999999 $mail00", "none none"),
        ("repeat 2 $parent", "none none"),
        ("$self", "You said: $self"),
    ] {
        let answer = if answer.is_empty() { &said[4..] } else { answer };
        assert_eq!(Conversation::new(said).answer().text(), answer);
    }
    // Variables in tool names are not replaced.
    assert_eq!(Conversation::new("call $self {}").answer().calls()[0].1, "$self");
}

#[test]
fn all_values_together_are_limited() {
    let long = format!("\"{}\"", "\\u0001".repeat(100_000));
    let mut talk = Conversation::new(&format!("call mail_read {{}}\nthen call x {{{}}}", "$message1 ".repeat(100)));
    talk.results([("mail_read", &mail(&long))]);
    let answer = talk.answer();
    let input = answer.calls()[0].2;
    assert!((7_800_000..8 << 20).contains(&input.len()), "{}", input.len());
    assert!(input.ends_with("none none }") && input.matches("none").count() == 87, "{}", input.matches("none").count());
    // Results that are too long are not read.
    let mut talk = Conversation::new("call mail_read {}\nthen say $message1");
    talk.results([("mail_read", &mail(&format!("\"{}\"", "x".repeat(1 << 20))))]);
    assert_eq!(talk.answer().text(), "none");
}

#[test]
fn on_mail_lines_are_followed_when_woken() {
    let mut talk = Conversation::new(
        "on mail call mail_check {}\non mail then call mail_read {\"number\":$mail1}\n on mail then say got $message1",
    );
    assert_eq!(talk.say(TWO).text(), "Waiting for mail.");
    let check = talk.results([("mail_check", &inbox(&[(5, CHILD)]))]);
    assert_eq!((check.text(), check.stop()), ("", "tool-use"));
    assert_eq!(talk.results([("mail_read", &mail("\"news\""))]).calls()[0].2, r#"{"number":5}"#);
    assert_eq!(talk.answer().text(), "got news");

    // The same lines apply to the next notification; a text without such lines changes nothing.
    talk.say("hello");
    assert_eq!(talk.say(ONE).text(), "You said: hello");
    assert_eq!(talk.answer().calls()[0].1, "mail_check");

    // The most recent lines count.
    talk.results([("mail_check", &inbox(&[]))]);
    talk.say("say one\non mail say two\ncall a {}");
    assert_eq!(talk.results([("a", "1")]).text(), "one");
    assert_eq!(talk.say(ONE).text(), "a said: 1");
    assert_eq!(talk.answer().text(), "two");
    // A text that follows the notification is echoed.
    talk.say("hello");
    assert_eq!(talk.answer().text(), "You said: hello");
}

/// Returns a notification with these messages, in the host's words.
fn notification(line: &str, mails: &[&str]) -> String {
    let mails: Vec<_> = (1..).zip(mails).map(|(number, text)| shown_mail(number, text)).collect();
    format!("{line}\n\nMessages from agents, as mail_read returns them:\n{}", mails.join("\n"))
}

fn shown_mail(number: u64, text: &str) -> String {
    format!(r#"{{"number":{number},"from":"{CHILD}","sent_at":"2026-11-21 20:04","message":{text}}}"#)
}

#[test]
fn mails_of_notifications_are_messages() {
    let mut talk = Conversation::new("on mail say $message1|$message2|$message3");
    talk.say(&notification(ONE, &[r#""one \"1\"\nsay no""#]));
    assert_eq!(talk.answer().text(), "one \"1\"\nsay no|none|none");
    // The messages of earlier notifications stay.
    talk.say(&notification(TWO, &[r#""two""#, r#""three""#]));
    assert_eq!(talk.answer().text(), "one \"1\"\nsay no|two|three");
    // The user's next text clears the messages, and mail that the agent reads itself takes precedence over them.
    talk.say("on mail call mail_read {}\non mail then say $message1|$message2");
    talk.say(&notification(ONE, &[r#""four""#]));
    talk.results([("mail_read", &mail("\"five\""))]);
    assert_eq!(talk.answer().text(), "five|none");
}

#[test]
fn mails_of_notifications_are_not_echoed() {
    let mut talk = Conversation::new("hello");
    talk.say(&notification(ONE, &[r#""say x""#]));
    assert_eq!(talk.answer().text(), format!("You said: {ONE}"));
}

#[test]
fn on_mail_accepts_every_command() {
    for line in ["say x", "then say x", "call x {}", "fail server", "stop refusal", "hang", "pause 1", "show context"] {
        assert_eq!(Conversation::new(&format!("on mail {line}")).answer().text(), "Waiting for mail.");
    }
    let mut talk = Conversation::new("on mail pause 5\non mail hang");
    talk.say(ONE);
    let answer = talk.answer();
    assert!(answer.hangs && answer.waits.first() == Some(&5), "{answer:?}");
    // Other lines are text.
    for line in ["on mail", "on mail hello", "on mail on mail say x", "then on mail say x", "on mail then then say x"] {
        assert_eq!(Conversation::new(line).answer().text(), format!("You said: {line}"));
    }
    assert_eq!(Conversation::new("on mail say x\nhello").answer().text(), "You said: hello");
}

#[test]
fn notification_of_a_failed_turn_follows_the_lines_alone() {
    let mut talk = Conversation::new("on mail say woken\nfail server never");
    talk.user([text(ONE)]);
    assert_eq!(talk.answer().text(), "woken");
    // The user's next text counts with it.
    talk.user([text("hello")]);
    assert_eq!(talk.answer().text(), format!("You said: {ONE}\nhello"));
}

#[test]
fn only_the_exact_notification_wakes() {
    for other in [
        "[Notification: You have many unread messages in your inbox]",
        "[Notification: You have  unread messages in your inbox]",
        "Look: [Notification: You have 1 unread message in your inbox]",
    ] {
        let mut talk = Conversation::new("on mail say woken");
        talk.say(other);
        assert_eq!(talk.answer().text(), format!("You said: {other}"));
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "(on mail )?(then )?(say|repeat 3|call x \\{)( ?\\$(self|parent|child|mail|from|message|\\$)[0-9]{0,2}){1,3}",
        "(on mail )?(then )?(hang|pause [0-9]{1,11}|fail server|stop other|show context)",
        "\\PC{0,9}",
    ];
    prop_oneof![
        4 => proptest::collection::vec(line, 1..4).prop_map(|lines| lines.join("\n")),
        1 => Just(root()),
        1 => Just(child()),
        1 => Just(ONE.to_owned()),
        1 => "You are the agent [0-9a-fä-]{34,37}\\. (You have no parent|Your parent is [0-9a-f-]{36})\\.",
        1 => "Summarise the conversation so far.",
    ]
}

fn any_result() -> impl Strategy<Value = String> {
    let value = prop_oneof!["[0-9]{1,22}", "\"\\PC{0,5}\"", "null", "\\[\\]", "\\{\\}", "-1.5"];
    let value = value.prop_map(|value| value.replace('\\', ""));
    (0..6_u8, value).prop_map(|(kind, value)| match kind {
        0 => success(&format!(r#"{{"child_uuid":{value}}}"#)),
        1 => success(&format!(r#"{{"messages":[{{"number":{value},"from":{value}}},{value}]}}"#)),
        2 => mail(&value),
        3 => success(&value),
        4 => format!(r#"{{"tool_success":{value},"result":1}}"#),
        _ => value,
    })
}

fn any_block() -> impl Strategy<Value = Block> {
    let name = || proptest::sample::select(vec!["fork", "mail_check", "mail_filter", "mail_read", "calc__eval"]);
    prop_oneof![
        3 => any_text().prop_map(Block::Text),
        2 => (name(), any_result(), any::<bool>()).prop_map(|(name, text, is_error)| {
            let content = vec![Piece::Text(text)];
            Block::ToolResult(ToolResult { call_id: "call_1".to_owned(), name: name.to_owned(), content, is_error })
        }),
        1 => (name(), any_text()).prop_map(|(name, input)| {
            Block::ToolCall(ToolCall { id: "call_1".to_owned(), name: name.to_owned(), input })
        }),
        1 => any_text().prop_map(Block::Thinking),
    ]
}

proptest! {
    /// Any conversation, even one that no host sends, keeps the contract and has one answer.
    #[test]
    fn any_conversation_keeps_the_contract(
        messages in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any_block(), 0..4)), 0..6),
    ) {
        let message = |(user, blocks): (bool, Vec<Block>)| Message {
            role: if user { Role::User } else { Role::Assistant },
            parts: blocks.into_iter().map(part).collect(),
        };
        let messages: Vec<_> = messages.into_iter().map(message).collect();
        prop_assert_eq!(run(request(messages.clone())), run(request(messages)));
    }

    /// A child answers as an agent with its texts alone, whatever its parent's conversation is. Only
    /// the numbers of its calls differ.
    #[test]
    fn child_answers_without_its_parent(
        parent in proptest::collection::vec(any_block(), 0..6),
        said in "(on mail )?(say|call x \\{)( ?\\$(self|parent|child1|mail1|from1|message1)){1,3}",
    ) {
        let own = [text(&child()), text(&said)];
        let alone = run(request(vec![user(own.to_vec())]));
        let after = run(request(vec![user(parent.into_iter().map(part).chain(own).collect())]));
        let inputs = |completed: &Completed| completed.calls().iter().map(|call| call.2.to_owned()).collect::<Vec<_>>();
        prop_assert_eq!(after.text(), alone.text());
        prop_assert_eq!(inputs(&after), inputs(&alone));
    }
}

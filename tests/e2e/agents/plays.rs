//! Whole plays with the demo provider: the examples of docs/agents.md, run exactly as written, and the same play twice.

use std::fs;

use patchbay_core::{AgentId, EventKind, MessageKind};
use patchbay_tests::play::Play;

/// A fenced block of the document.
struct Block {
    language: String,
    text: String,
}

/// Returns the blocks of a section of docs/agents.md.
fn section(heading: &str) -> Vec<Block> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/agents.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    let section = section.split("\n## ").next().unwrap();
    let fenced = section.split("\n```").skip(1).step_by(2);
    let block = |block: &str| {
        let (language, text) = block.split_once('\n').unwrap();
        Block { language: language.to_owned(), text: text.to_owned() }
    };
    fenced.map(block).collect()
}

/// A line to send and the output that the document shows.
struct Step {
    line: String,
    output: String,
}

/// Returns the steps in these blocks: pasted messages, and lines after `> ` with their output.
fn steps(blocks: &[Block]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for Block { language, text } in blocks {
        if language == "message" {
            steps.push(Step { line: text.clone(), output: String::new() });
            continue;
        }
        for line in text.lines() {
            match (line.strip_prefix("> "), steps.last_mut()) {
                (Some(line), _) => steps.push(Step { line: line.to_owned(), output: String::new() }),
                (None, Some(step)) => step.output += &format!("{line}\n"),
                (None, None) => panic!("output without a line: {line}"),
            }
        }
    }
    steps
}

/// Replaces UUIDs, in full or shortened to 8 characters, with numbers in order of first appearance.
#[derive(Clone, Default)]
struct Numbering(Vec<String>);

impl Numbering {
    /// Replaces UUIDs in `text` with numbers, and times, seconds and tokens with fixed words.
    fn replace(&mut self, text: &str) -> String {
        let mut replaced = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let starts_word = !replaced.ends_with(|c: char| c.is_ascii_alphanumeric());
            if starts_word && let Some((uuid, length)) = uuid(rest) {
                let number = self.0.iter().position(|known| *known == uuid).unwrap_or_else(|| {
                    self.0.push(uuid);
                    self.0.len() - 1
                });
                replaced += &format!("{}<{number}>", if length > 8 { "whole " } else { "" });
                rest = &rest[length..];
            } else if starts_word && let Some(length) = time(rest) {
                replaced += "TIME";
                rest = &rest[length..];
            } else if starts_word && let Some(length) = count(rest) {
                replaced += "N";
                rest = &rest[length..];
            } else {
                replaced.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        replaced
    }
}

/// If `text` begins with a UUID, returns its first 8 characters and the length of its visible part.
fn uuid(text: &str) -> Option<(String, usize)> {
    let short = text.get(..8).filter(|short| short.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))?;
    let is_whole = text.get(..36).is_some_and(|whole| {
        whole.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    });
    let length = if is_whole { 36 } else { 8 };
    let ends = !text[length..].starts_with(|c: char| c.is_ascii_alphanumeric());
    ends.then(|| (short.to_owned(), length))
}

/// Returns the length of a time such as `2026-11-21 20:04` at the beginning of `text`.
fn time(text: &str) -> Option<usize> {
    let time = text.get(..16)?;
    let pattern: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    (pattern == "0000-00-00 00:00").then_some(16)
}

/// Returns the length of a number of tokens or seconds at the beginning of `text`.
fn count(text: &str) -> Option<usize> {
    let length = text.find(|c: char| !c.is_ascii_digit() && c != ',').filter(|length| *length > 0)?;
    // In JSON, quotes are escaped, and the age precedes the agent.
    [" tokens", " s \"", " s \\\"", "\"agent\":"].iter().any(|unit| text[length..].starts_with(unit)).then_some(length)
}

/// The agents of a play, as the document and the session name them, in order of first appearance.
#[derive(Default)]
struct Actors {
    document: Numbering,
    session: Numbering,
}

impl Actors {
    /// Returns a line of the document with the session's UUIDs.
    fn line(&self, line: &str) -> String {
        let known = self.document.0.iter().zip(&self.session.0);
        known.fold(line.to_owned(), |line, (documented, real)| line.replace(documented, real))
    }
}

/// Runs the steps and asserts that each prints the same output as in the document.
async fn run(play: &Play, actors: &mut Actors, steps: &[Step]) {
    let hangs = steps.iter().any(|step| step.line.contains("hang"));
    for Step { line, output } in steps {
        let expected = actors.document.replace(output);
        let line = actors.line(line);
        if hangs && line.starts_with("/kill") {
            // The partial text is stored a moment after it arrived.
            play.wait_for_partial("Half of it.").await;
        }
        let from = play.session.last_seq();
        let outcome = play.run(&line).await;
        let output = async || {
            let mut texts = Vec::new();
            if line.starts_with('/') || outcome.code.as_str() == "captured" {
                texts.push(outcome.line().into_owned());
            }
            texts.extend(answers_since(play, from).await);
            let mut session = actors.session.clone();
            (session.replace(&format!("{}\n", texts.join("\n"))), session)
        };
        // While an agent hangs, the test cannot know whether the others are idle.
        if !hangs {
            play.idle().await;
        }
        let mut found = output().await;
        for _ in 0..6_000 {
            if found.0 == expected {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            found = output().await;
        }
        assert_eq!(found.0, expected, "{line}");
        actors.session = found.1;
    }
}

/// Returns the texts of the answers of the agent in view after row `from`.
async fn answers_since(play: &Play, from: u64) -> Vec<String> {
    let view = play.session.view();
    let mut events = play.session.subscribe(from + 1);
    let mut texts = Vec::new();
    while let Some(received) = events.try_next().await.unwrap() {
        if let patchbay_session::Received::Event(event) = received
            && let EventKind::Message { kind: MessageKind::Assistant, content, .. } = event.kind
            && event.agent == view
            && !content.is_empty()
        {
            texts.push(content);
        }
    }
    texts
}

/// Runs a section of the document in a new session.
async fn run_section(heading: &str) -> Play {
    let play = Play::new().await;
    let steps = steps(&section(heading));
    assert!(!steps.is_empty(), "{heading}");
    run(&play, &mut Actors::default(), &steps).await;
    play.idle().await;
    play
}

/// The headings of the sections whose transcripts are exact.
const SECTIONS: &[&str] = &[
    "Making agents and moving between them",
    "Writing the task of a child",
    "Mail",
    "A pipeline",
    "A child that fails",
    "A kill in the middle",
    "A person steps into a child",
];

#[tokio::test(flavor = "multi_thread")]
async fn documented_commands_print_what_is_shown() {
    for heading in &SECTIONS[..3] {
        run_section(heading).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_children_report_and_are_gathered() {
    let play = Play::new().await;
    let root = play.session.view();
    let [message, answer] = &section("Fan-out and gathering")[..] else { panic!("a message and an answer") };
    let outcome = play.finish(&message.text).await;
    assert_eq!((outcome.code.as_str(), &*outcome.message), ("answered", "Eight children are at work."));
    let agents = play.ids().await;
    assert_eq!(agents.len(), 9);
    // Each report arrived once, in the order in which the turns ended.
    let sorted = |lines: Vec<&str>| {
        let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let expected = sorted(answer.text.lines().collect());
    let mails = play.mails(root).await;
    assert_eq!(sorted(mails.iter().map(String::as_str).collect()), expected);
    let mut senders: Vec<AgentId> = play.inbox(root).await.iter().map(|mail| mail.from).collect();
    senders.sort();
    let mut children = agents[1..].to_vec();
    children.sort();
    assert_eq!(senders, children);
    // One to eight notifications covered all reports, and the last answer contains all of them.
    let said = play.said(root);
    assert!((1..=8).contains(&(said.len() - 1)), "{said:?}");
    let answers = play.answers(root);
    assert_eq!(sorted(answers.last().unwrap().split_inclusive('}').map(str::trim).collect()), expected);
    for child in &agents[1..] {
        assert_eq!(play.turns(*child), [("fork".to_owned(), "done".to_owned(), "answered".to_owned())]);
        assert_eq!(play.mails(*child).await, [] as [String; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pipeline_passes_its_result_by_mail() {
    let play = run_section("A pipeline").await;
    let [root, last, first] = play.ids().await[..] else { panic!("three agents") };
    assert_eq!(play.mails(last).await, ["a draft"]);
    assert_eq!(play.inbox(last).await[0].from, first);
    let report = r#"{"status":"idle","success":true,"summary":"Polished: a draft"}"#;
    assert_eq!(play.mails(root).await, [report]);
    assert_eq!(play.answers(root)[1..], [format!("Result: {report}")]);
    let causes = |agent| play.turns(agent).into_iter().map(|(cause, ..)| cause).collect::<Vec<_>>();
    assert_eq!(
        (causes(root), causes(last)),
        (vec!["person".into(), "mail".into()], vec!["person".into(), "mail".into()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_child_is_reported_in_a_play() {
    let play = run_section("A child that fails").await;
    let [root, child] = play.ids().await[..] else { panic!("two agents") };
    assert_eq!(play.turns(child)[0].2, "provider_server");
    assert_eq!(play.inbox(root).await[0].from, child);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_child_is_reported_in_a_play() {
    let play = run_section("A kill in the middle").await;
    let [root] = play.ids().await[..] else { panic!("one agent") };
    assert_eq!(play.mails(root).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn person_steps_into_a_child() {
    let play = run_section("A person steps into a child").await;
    let [root, child] = play.ids().await[..] else { panic!("two agents") };
    let causes: Vec<_> = play.turns(child).into_iter().map(|(cause, ..)| cause).collect();
    assert_eq!(causes, ["fork", "person", "person"]);
    assert_eq!(play.answers(root).last().unwrap(), "Mail: The folder is docs.");
}

/// Returns the stored result of a play without ids and times: the rows, turns and inbox of each agent, in order of creation.
async fn traces(play: &Play) -> Vec<String> {
    let tree = play.session.agent_tree().await.unwrap();
    let database = play.patchbay.database("patchbay.db");
    let mut query = database.prepare("SELECT uuid FROM agents WHERE session = ? ORDER BY ordinal").unwrap();
    let agents: Vec<String> =
        query.query_map([play.session.id().to_string()], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(agents.len(), tree.living.len() + tree.dead.len());
    let mut numbering = Numbering::default();
    let mut traces = Vec::new();
    for agent in &agents {
        numbering.replace(agent);
    }
    for agent in agents {
        let agent: AgentId = agent.parse().unwrap();
        for row in play.rows(agent).await {
            let mut row = serde_json::to_value(&row).unwrap();
            // The prefix of an answer contains the agent's id, so its digest differs.
            if let Some(data) = row.get_mut("data").and_then(serde_json::Value::as_object_mut) {
                data.remove("prefix");
            }
            traces.push(numbering.replace(&format!("{agent} {row}")));
        }
        traces.push(numbering.replace(&format!("{agent} {:?}", play.turns(agent))));
        let inbox = play.inbox(agent).await;
        traces.extend(
            inbox
                .iter()
                .map(|mail| numbering.replace(&format!("{} {} {} {}", mail.number, mail.from, mail.read, mail.body))),
        );
    }
    traces
}

#[tokio::test(flavor = "multi_thread")]
async fn same_play_leaves_the_same_rows() {
    for heading in SECTIONS {
        let once = traces(&run_section(heading).await).await;
        let again = traces(&run_section(heading).await).await;
        assert!(once.len() > 5, "{heading}");
        assert_eq!(once, again, "{heading}");
    }
}

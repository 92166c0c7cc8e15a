//! The parts of the page that the server writes: rows of a conversation, questions, lists. All text is escaped by maud, except for
//! the answers of models, which `markdown` converts to HTML.

use maud::{Markup, html};
use patchbay_core::{AgentId, AssistantPart, Attachment, Event, EventKind, MessageKind, Money, Outcome, text};
use patchbay_session::{AgentTree, Seat};
use patchbay_store::{SpendingRow, utc_date};

use super::markdown;
use crate::api::{ListedSession, OpenQuestionBody, open_questions};

/// How many characters of a tool's input its summary shows.
const INPUT: usize = 100;

/// Returns a stored row; `None` if the page does not show it.
pub(super) fn row(event: &Event) -> Option<Markup> {
    let EventKind::Message { kind, content, data } = &event.kind else { return None };
    let seq = event.seq;
    Some(match kind {
        MessageKind::User if event.kind.is_notification() => html! { p.notice #{"row-" (seq)} { (content) } },
        MessageKind::User | MessageKind::Capture => html! {
            article.user #{"row-" (seq)} aria-label="You" {
                p.typed { (content) }
                @for file in event.kind.attachments() { p.attached { (Attachment::placeholder(&file)) } }
            }
        },
        MessageKind::Skill => html! {
            p.notice #{"row-" (seq)} { "Instructions of a skill were added." }
        },
        MessageKind::Assistant => answer(event),
        MessageKind::Tool => {
            let failed = event.kind.tool_result().and_then(|result| result.error);
            let name = event.kind.tool_result().map(|result| result.name).unwrap_or_default();
            html! {
                details.result.failed[failed.is_some()] #{"row-" (seq)} {
                    summary { "Result of " code { (name) } @if let Some(code) = failed { ": failed (" (code.as_str()) ")" } }
                    pre { (content) }
                }
            }
        }
        MessageKind::Command => {
            let outcome = data.clone().and_then(|data| serde_json::from_value::<Outcome>(data).ok());
            html! {
                article.command #{"row-" (seq)} aria-label="Command" {
                    p.typed { (content) }
                    @if let Some(outcome) = outcome { pre.outcome { (outcome.line()) } }
                }
            }
        }
        MessageKind::Compaction => html! {
            details.notice #{"row-" (seq)} { summary { "Earlier messages are summarised" } pre { (content) } }
        },
        MessageKind::Notice => html! { p.notice #{"row-" (seq)} { (content) } },
    })
}

fn answer(event: &Event) -> Markup {
    let parts = event.kind.answer().map(|answer| answer.parts).unwrap_or_default();
    html! {
        article.answer #{"row-" (event.seq)} aria-label="Answer" {
            @for part in &parts {
                @match part {
                    AssistantPart::Text { text, .. } => div.text { (markdown::html(text)) },
                    AssistantPart::Thinking { text, .. } => details.thinking { summary { "Thinking" } pre { (text) } },
                    AssistantPart::ToolCall { name, input, .. } => details.call {
                        summary { "Calls " code { (name) } " " span.input { (text::excerpt(input, INPUT)) } }
                        pre { (input) }
                    },
                    AssistantPart::Opaque { .. } => {},
                }
            }
        }
    }
}

/// Returns links to the agents of a session if it has several.
pub(super) fn agents(tree: &AgentTree, shown: AgentId, path: &str) -> Markup {
    let all = || tree.living.iter().chain(&tree.dead);
    html! {
        nav #agents aria-label="Agents" {
            @if all().count() > 1 {
                ul {
                    @for agent in all() {
                        li {
                            a href={(path) "?agent=" (agent.id)} aria-current=[(agent.id == shown).then_some("page")] {
                                (agent.id.short()) " " (agent.task.as_deref().unwrap_or_default())
                            }
                            @if agent.in_view { span.badge { "in view" } }
                            @if !agent.alive { span.badge { "killed" } }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the open questions with their answers, on a page about the agent `shown`. The texts are the same as in the terminal.
pub(super) fn questions(seat: &Seat, shown: AgentId) -> Markup {
    let shown = shown.to_string();
    html! { @for body in open_questions(seat) { (question(&body, &shown)) } }
}

fn question(body: &OpenQuestionBody, shown: &str) -> Markup {
    html! {
        form.question data-question=(body.id) role="group" aria-labelledby={"question-" (body.id)} {
            h2 #{"question-" (body.id)} {
                @if body.agent != shown { (body.agent.get(..8).unwrap_or_default()) " asks: " }
                (body.topic)
            }
            p.title { (body.title) }
            @if let Some(diff) = &body.diff { pre.diff tabindex="0" aria-label="Difference" { @for line in diff.lines() { (diff_line(line)) } } }
            @for fact in &body.facts { p.fact { (fact) } }
            p.fact { "for " (body.chain.join(" > ")) }
            @if let Some(reason) = &body.reason { p.fact { "the skill's reason: " (reason) } }
            div.answers {
                @for answer in &body.answers {
                    button type="button" data-answer=(answer.answer) { (answer.answer) span.meaning { (answer.meaning) } }
                }
            }
        }
    }
}

/// Returns a line of a diff. A sign after the line number marks added and removed lines, so readers do not depend on colour.
fn diff_line(line: &str) -> Markup {
    let numbered = line.trim_start().trim_start_matches(|digit: char| digit.is_ascii_digit());
    let class = match numbered.strip_prefix(' ').and_then(|rest| rest.chars().next()) {
        Some('+') => "added",
        Some('-') => "removed",
        _ => "same",
    };
    html! { span class=(class) { (line) "\n" } }
}

/// Returns the list of sessions, and a form for a new one.
pub(super) fn sessions(sessions: &[ListedSession], workspaces: &[&str]) -> Markup {
    html! {
        h1 { "Sessions" }
        @if sessions.is_empty() { p { "No sessions in this server's workspaces yet." } }
        ul.sessions {
            @for session in sessions {
                li {
                    a href={"/sessions/" (session.id)} { (session.title.as_deref().unwrap_or("(no messages)")) }
                    span.where { (session.workspace) }
                    @if session.is_running { span.badge { "running" } }
                    @if session.questions > 0 { span.badge.asks { (session.questions) " open" } }
                }
            }
        }
        @if workspaces.is_empty() {
            p { "To start sessions here, add folders to workspaces in [serve] of config.toml." }
        } @else {
            form #new {
                label for="workspace" { "New session in" }
                select #workspace { @for name in workspaces { option { (name) } } }
                button type="submit" { "Start" }
            }
        }
    }
}

/// Returns the cost of models, with a row for each day and model.
pub(super) fn usage(rows: &[SpendingRow]) -> Markup {
    let mut days = std::collections::BTreeMap::<(std::cmp::Reverse<i64>, &str, &str), (u64, Money)>::new();
    for row in rows {
        let sum = days.entry((std::cmp::Reverse(row.day), &row.provider, &row.model)).or_insert((0, Money::ZERO));
        *sum = (sum.0.saturating_add(row.requests), sum.1.plus(row.money.spent));
    }
    html! {
        h1 { "Usage" }
        @if days.is_empty() { p { "No requests to models yet." } }
        @else {
            table {
                thead { tr { th scope="col" { "Day (UTC)" } th scope="col" { "Model" } th scope="col" { "Requests" } th scope="col" { "USD" } } }
                tbody {
                    @for ((day, provider, model), (requests, spent)) in &days {
                        tr { th scope="row" { (utc_date(day.0)) } td { (provider) ":" (model) } td { (requests) } td { (spent) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_of_a_changed_line_has_a_colour() {
        for (line, class) in [
            (" 9 + x", "added"),
            ("10 - x", "removed"),
            ("10   + x", "same"),
            ("  …", "same"),
            ("+a.txt", "same"),
            ("… 3 more changed lines", "same"),
        ] {
            let shown = format!("<span class=\"{class}\">{line}\n</span>");
            assert_eq!(diff_line(line).into_string(), shown);
        }
    }
}

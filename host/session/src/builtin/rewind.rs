//! `/rewind [N [--files|--files-only]]`: lists the messages to the agent in view, or goes back to before one of them. The
//! conversation then continues as a new agent. `--files` also restores the files to their contents from before that message;
//! `--files-only` restores the files alone.

use std::sync::Arc;

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Attachment, Code, Outcome};
use patchbay_store::MessageRow;
use serde_json::json;

use super::{
    BeginsTurn, BuiltIn, Effect,
    undo::{RestoredFiles, failed, files},
};
use crate::{change_sets::group_since, line::context::LineContext, recap, tree::rewind::RewoundMessage};

/// Maximum number of messages that are listed.
const LISTED: usize = 50;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    needs_living_agent: true,
    ends_itself: true,
    begins_turn: |_, argument| {
        if argument.is_empty() { BeginsTurn::No } else { BeginsTurn::IfIdle { releases: false } }
    },
    moves_view: true,
    ..BuiltIn::new(
        Spec {
            name: "rewind",
            argument: Argument::Optional { usage: "[N [--files|--files-only]]" },
            summary: "List your messages, or go back to before message N: the conversation, with --files also the files, with --files-only \
              the files alone",
            completion: Completion::Messages,
        },
        |line, argument| Box::pin(async move { rewind(line, argument).await.into() }),
    )
};

/// The parts that are restored to their earlier state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GoesBack {
    Conversation,
    Both,
    Files,
}

fn parse(argument: &str) -> Option<(usize, GoesBack)> {
    let mut words = argument.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let parts = match words.next() {
        None => GoesBack::Conversation,
        Some("--files") => GoesBack::Both,
        Some("--files-only") => GoesBack::Files,
        Some(_) => return None,
    };
    words.next().is_none().then_some((number, parts))
}

async fn rewind(line: &LineContext, argument: &str) -> Result<Effect, Outcome> {
    let store = line.session.log().store();
    let messages = store.messages_to(line.agent.id()).await.map_err(|error| failed(&error))?;
    if argument.is_empty() {
        return Ok(listed(&messages).into());
    }
    let (number, parts) = parse(argument).ok_or_else(|| {
        let message = "/rewind requires the number of a message, then --files, --files-only, or nothing.";
        Outcome::error(Code::InvalidArgs, message)
    })?;
    if line.turn.is_none() {
        let message =
            "cannot go back while a response is streaming. Wait for it to finish or press Ctrl+C to cancel it.";
        return Err(Outcome::error(Code::TurnRunning, message));
    }
    let chosen = number.checked_sub(1).and_then(|at| messages.get(at)).ok_or_else(|| {
        let message = format!("message {number} was not found. /rewind lists your messages.");
        Outcome::error(Code::MessageNotFound, message)
    })?;
    // The list only contains the beginning of each text.
    let row = store.messages(line.session.id(), chosen.seq, 1).await.map_err(|error| failed(&error))?.pop();
    let row = row.unwrap_or_else(|| chosen.clone());
    let undone = match parts {
        GoesBack::Conversation => None,
        GoesBack::Both | GoesBack::Files => undo_since(line, row.seq).await?,
    };
    // A stopped command does not create an agent.
    if parts == GoesBack::Files || (line.stop.is_cancelled() && undone.is_some()) {
        return files_alone(number, undone).map(Effect::from);
    }
    let mut words = format!("Back to before message {number}: {}\n", recap::typed_excerpt(&row));
    let old = line.agent.id().short();
    let rest = match (&undone, parts) {
        (Some(undone), _) => undone.under(format!("\n{}", summary(undone)), None),
        (None, GoesBack::Conversation) => String::new(),
        (None, _) => "\nNo files were changed since then.".to_owned(),
    };
    let message = RewoundMessage {
        row: row.seq,
        text: recap::typed(&row),
        attached: Attachment::from_data(row.data.as_ref()).into_iter().map(|file| file.name).collect(),
        files: undone.and_then(|undone| undone.data().as_object().cloned()).unwrap_or_default(),
    };
    Ok(Effect::Prepare(line.session.rewind(Arc::clone(&line.agent), message, move |new| {
        words += &format!("You are now talking to {}. {old} is held; /switch {old} returns to it.{rest}", new.short());
        words
    })))
}

/// Returns the list of the messages, with the last message at the end.
fn listed(messages: &[MessageRow]) -> Outcome {
    if messages.is_empty() {
        return Outcome::ok(Code::RewindListed, "There are no messages to go back to.")
            .with_data(json!({"messages": []}));
    }
    let earlier = messages.len().saturating_sub(LISTED);
    let numbered = || (earlier + 1..).zip(&messages[earlier..]);
    let width = messages.len().to_string().len();
    let mut lines: Vec<String> =
        numbered().map(|(number, row)| format!("{number:>width$}. {}", recap::typed_excerpt(row))).collect();
    if earlier > 0 {
        lines.insert(0, format!("\u{2026} {earlier} earlier"));
    }
    lines.push("To go back to before one of them: /rewind N, with the files: /rewind N --files".to_owned());
    let data: Vec<_> = numbered().map(|(number, row)| json!({"number": number, "row": row.seq})).collect();
    Outcome::ok(Code::RewindListed, lines.join("\n")).with_data(json!({"messages": data}))
}

/// Undoes all file changes since the row `first`. Returns `None` if there are none.
async fn undo_since(line: &LineContext, first: u64) -> Result<Option<RestoredFiles<'_>>, Outcome> {
    let (session, store) = (&line.session, line.session.log().store());
    let sets = store.change_sets(session.id()).await.map_err(|error| failed(&error))?;
    let lineage = store.lineage(line.agent.id()).await.map_err(|error| failed(&error))?;
    let group = group_since(&sets, &session.all_agents().await?, &lineage, first);
    if session.changes_of(&group).await?.is_empty() {
        return Ok(None);
    }
    RestoredFiles::new(line, group).await.map(Some)
}

fn summary(undone: &RestoredFiles<'_>) -> String {
    match (undone.restored.len(), undone.refused.len()) {
        (0, 0) => "The files already have their earlier contents.".to_owned(),
        (count, _) => format!("Restored {}.", files(count)),
    }
}

fn files_alone(number: usize, undone: Option<RestoredFiles<'_>>) -> Result<Outcome, Outcome> {
    let Some(undone) = undone else {
        let message = format!("no files were changed since message {number}.");
        return Err(Outcome::error(Code::ChangeNotFound, message));
    };
    let data = undone.data();
    if undone.restored.is_empty() && !undone.refused.is_empty() {
        let message = format!("no file was restored:\n{}", undone.reasons());
        return Err(Outcome::error(Code::ChangeKept, message).with_data(data));
    }
    Ok(Outcome::ok(Code::ChangeUndone, undone.under(summary(&undone), None)).with_data(data))
}

#[cfg(test)]
mod tests {
    use patchbay_core::{AgentId, MessageKind};

    use super::*;

    #[test]
    fn argument_is_a_number_and_what_goes_back() {
        assert_eq!(parse("2"), Some((2, GoesBack::Conversation)));
        assert_eq!(parse("12  --files"), Some((12, GoesBack::Both)));
        assert_eq!(parse("12 --files-only"), Some((12, GoesBack::Files)));
        for wrong in ["--files", "--files 2", "2 3", "2 --files --files", "-1", "two"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn last_messages_are_listed_with_their_numbers() {
        let row = |seq: u64| MessageRow {
            seq,
            agent: AgentId::from_bytes([1; 16]),
            kind: MessageKind::User,
            content: format!("say\n{seq}"),
            data: None,
        };
        let rows: Vec<_> = (1..=120).map(row).collect();
        let end = "To go back to before one of them: /rewind N, with the files: /rewind N --files";
        assert_eq!(listed(&rows[..2]).message, format!("1. say 1\n2. say 2\n{end}"));
        assert_eq!(listed(&[]).message, "There are no messages to go back to.");
        let many = listed(&rows).message;
        assert!(many.starts_with("\u{2026} 70 earlier\n 71. say 71\n"), "{many}");
        assert!(many.ends_with(&format!("\n120. say 120\n{end}")), "{many}");
    }
}

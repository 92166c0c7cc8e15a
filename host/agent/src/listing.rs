//! The list of skills in the system context. If the budget has no room for everything, names take precedence over descriptions,
//! and skills that come first in the order of [`ShownRank`] over the rest. A skill is left out only if the names are too long for
//! the budget, or for an untrusted workspace's share of it. A pure function of the snapshot and the budget. Called by `shown`.

use patchbay_skill::{InvocationMode, ShownRank, Skill, Snapshot};

use crate::budget;

const HEAD: &str = "Skills. When one fits the task, call the tool use_skill with its name and follow the instructions that it returns:";
/// Precedes the names of skills that are listed by name only.
const NAMED: &str = "\nMore skills, described by find_skills: ";
/// Separates the names of skills without a description.
const COMMA: &str = ", ";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SkillList {
    /// The text for the system context; `None` without skills.
    pub(crate) text: Option<String>,
    /// Number of skills whose description is left out, named or not.
    pub(crate) left_out: usize,
}

/// Returns the skills with instructions for a model, sorted by name.
pub(crate) fn instructed(snapshot: &Snapshot) -> impl Iterator<Item = &Skill> {
    let for_models = |skill: &&Skill| {
        skill.manifest.invocation_mode == InvocationMode::LlmOrchestration && skill.manifest.audience.models
    };
    snapshot.skills().filter(for_models)
}

/// Lists the skills whose instructions `use_skill` returns, in at most `room` bytes.
pub(crate) fn listing(snapshot: &Snapshot, room: usize) -> SkillList {
    let entry = |skill: &'_ Skill| {
        let manifest = &skill.manifest;
        let hint = manifest.input_hint.as_ref().map(|hint| format!(" (input: {hint})")).unwrap_or_default();
        ListedSkill {
            name: skill.name.to_string(),
            description: format!("{}{hint}", manifest.summary).trim_start().to_owned(),
            rank: snapshot.shown_rank(skill),
        }
    };
    let mut entries: Vec<ListedSkill> = instructed(snapshot).map(entry).collect();
    entries.sort_by(|a, b| (a.rank, &a.name).cmp(&(b.rank, &b.name)));
    list(&entries, room)
}

#[derive(Clone, Debug)]
struct ListedSkill {
    name: String,
    description: String,
    rank: ShownRank,
}

impl ListedSkill {
    /// Returns a newline, the name and the whole description.
    fn line(&self) -> String {
        let colon = if self.description.is_empty() { "" } else { ": " };
        format!("\n- {}{colon}{}", self.name, self.description)
    }

    /// Returns how many bytes the name needs in the list of names, with its comma.
    fn name_bytes(&self) -> usize {
        self.name.len() + COMMA.len()
    }
}

/// How much of a skill is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    Nothing,
    Name,
    Whole,
}

/// Bytes that are left for skills.
#[derive(Clone, Copy, Debug)]
struct ListRoom {
    all: usize,
    /// The part of `all` that an untrusted workspace may use.
    untrusted: usize,
}

impl ListRoom {
    /// Reserves `bytes` for a skill of this rank. Returns false if they don't fit.
    fn take(&mut self, rank: ShownRank, bytes: usize) -> bool {
        let is_untrusted = rank == ShownRank::UntrustedWorkspace;
        if bytes > self.all || (is_untrusted && bytes > self.untrusted) {
            return false;
        }
        self.all -= bytes;
        if is_untrusted {
            self.untrusted -= bytes;
        }
        true
    }
}

/// Lists `entries`, which are sorted by priority, highest first.
fn list(entries: &[ListedSkill], room: usize) -> SkillList {
    if entries.is_empty() {
        return SkillList { text: None, left_out: 0 };
    }
    let details = choose(entries, room);
    let with = |detail: Detail| {
        let chosen = entries.iter().zip(&details).filter(move |(_, chosen)| **chosen == detail);
        let mut chosen: Vec<&ListedSkill> = chosen.map(|(entry, _)| entry).collect();
        chosen.sort_by(|a, b| a.name.cmp(&b.name));
        chosen
    };
    let (described, named) = (with(Detail::Whole), with(Detail::Name));
    let unnamed = entries.len() - described.len() - named.len();
    let left_out = entries.len() - described.len();
    let lines: String = described.into_iter().map(ListedSkill::line).collect();
    let names: Vec<&str> = named.into_iter().map(|entry| entry.name.as_str()).collect();
    let names = if names.is_empty() { String::new() } else { format!("{NAMED}{}", names.join(COMMA)) };
    SkillList { text: Some(format!("{HEAD}{lines}{names}{}", tail(unnamed))), left_out }
}

/// Returns the last line, which says how many skills the list does not name. Empty if it names all of them.
fn tail(unnamed: usize) -> String {
    match unnamed {
        0 => String::new(),
        1 => "\n1 more skill: call find_skills.".to_owned(),
        more => format!("\n{more} more skills: call find_skills."),
    }
}

/// Returns how much of each entry is listed in at most `room` bytes: names in the order of the entries, as long as they fit, then
/// the descriptions of named skills in the same order. A description that does not fit is passed over; shorter ones may still fit.
fn choose(entries: &[ListedSkill], room: usize) -> Vec<Detail> {
    let mut room = ListRoom { all: room.saturating_sub(HEAD.len()), untrusted: budget::untrusted(room) };
    let mut whole = room;
    if entries.iter().all(|entry| whole.take(entry.rank, entry.line().len())) {
        return vec![Detail::Whole; entries.len()];
    }
    room.all = room.all.saturating_sub(NAMED.len() + tail(entries.len()).len());
    let named = entries.iter().take_while(|entry| room.take(entry.rank, entry.name_bytes())).count();
    let mut details = vec![Detail::Nothing; entries.len()];
    for (entry, detail) in entries.iter().zip(&mut details).take(named) {
        let more = entry.line().len() - entry.name_bytes();
        *detail = if room.take(entry.rank, more) { Detail::Whole } else { Detail::Name };
    }
    details
}

#[cfg(test)]
mod tests;

//! The list of skills in the system context. Over its budget, descriptions are shortened evenly before a skill is left out. A pure
//! function of the snapshot and the budget. `shown` calls it.

use patchbay_skill::{InvocationMode, ShownRank, Skill, Snapshot};

use crate::budget;

const HEAD: &str =
    "Skills. When one fits the task, call the tool use_skill with its name and follow the instructions that it gives:";
/// Characters of a description that are kept while a skill is listed.
const MIN_CHARS: usize = 60;
/// The end of a description that was cut.
const CUT: &str = "…";

/// The list of skills.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SkillList {
    /// The text for the system context; `None` without skills.
    pub(crate) text: Option<String>,
    /// Number of skills that are left out.
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
        ListedSkill::new(
            skill.name.to_string(),
            format!("{}{hint}", manifest.summary).trim_start().to_owned(),
            snapshot.shown_rank(skill),
        )
    };
    let mut entries: Vec<ListedSkill> = instructed(snapshot).map(entry).collect();
    entries.sort_by(|a, b| (a.rank, &a.name).cmp(&(b.rank, &b.name)));
    list(&entries, room)
}

/// A skill to be listed.
#[derive(Clone, Debug)]
struct ListedSkill {
    name: String,
    description: String,
    /// Characters of `description`.
    chars: usize,
    rank: ShownRank,
}

impl ListedSkill {
    fn new(name: String, description: String, rank: ShownRank) -> Self {
        let chars = description.chars().count();
        Self { name, description, chars, rank }
    }

    /// Returns the description, cut to `chars` characters if that makes it shorter, and the sign of a cut.
    fn cut(&self, chars: usize) -> (&str, &str) {
        if self.chars > chars
            && let Some((end, _)) = self.description.char_indices().nth(chars)
            && self.description.len() - end > CUT.len()
        {
            return (&self.description[..end], CUT);
        }
        (&self.description, "")
    }

    /// Returns the line, which begins with a line feed.
    fn line(&self, chars: usize) -> String {
        let (description, more) = self.cut(chars);
        let colon = if description.is_empty() { "" } else { ": " };
        format!("\n- {}{colon}{description}{more}", self.name)
    }

    /// Returns the bytes of the line.
    fn bytes(&self, chars: usize) -> usize {
        let (description, more) = self.cut(chars);
        let colon = if description.is_empty() { 0 } else { 2 };
        "\n- ".len() + self.name.len() + colon + description.len() + more.len()
    }
}

/// Lists `entries`, which are in the order in which they are kept.
fn list(entries: &[ListedSkill], room: usize) -> SkillList {
    if entries.is_empty() {
        return SkillList { text: None, left_out: 0 };
    }
    let tail = |left_out: usize| match left_out {
        0 => String::new(),
        1 => "\n1 more skill: call find_skills.".to_owned(),
        more => format!("\n{more} more skills: call find_skills."),
    };
    let mut lines = choose(entries, room.saturating_sub(HEAD.len()), budget::untrusted(room));
    if lines.len() < entries.len() {
        let taken = HEAD.len() + tail(entries.len()).len();
        lines = choose(entries, room.saturating_sub(taken), budget::untrusted(room));
    }
    let left_out = entries.len() - lines.len();
    lines.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    let lines: String = lines.into_iter().map(|(entry, chars)| entry.line(chars)).collect();
    SkillList { text: Some(format!("{HEAD}{lines}{}", tail(left_out))), left_out }
}

/// Returns the entries that are kept, each with the length of its description in characters. Their lines have at most `room` bytes,
/// those of an untrusted workspace at most `most_untrusted`. Such a workspace shortens others only by what it takes, and it is
/// shortened alone to fit into its part.
fn choose(entries: &[ListedSkill], room: usize, most_untrusted: usize) -> Vec<(&ListedSkill, usize)> {
    let (untrusted, trusted): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| entry.rank == ShownRank::UntrustedWorkspace);
    let wanted: usize = untrusted.iter().map(|entry| entry.bytes(usize::MAX)).sum();
    let chars = longest(&trusted, room.saturating_sub(wanted.min(most_untrusted)));
    let (mut kept, used) = keep(&trusted, chars, room);
    if kept.len() == trusted.len() {
        let room = (room - used).min(most_untrusted);
        let (more, _) = keep(&untrusted, longest(&untrusted, room).min(chars), room);
        kept.extend(more);
    }
    kept
}

/// Returns the greatest length to which descriptions can be cut so that all lines have at most `room` bytes: at least
/// [`MIN_CHARS`], also if they do not fit.
fn longest(entries: &[&ListedSkill], room: usize) -> usize {
    let fits = |chars: usize| entries.iter().map(|entry| entry.bytes(chars)).sum::<usize>() <= room;
    let most = entries.iter().map(|entry| entry.chars).max().unwrap_or_default().max(MIN_CHARS);
    if fits(most) {
        return usize::MAX;
    }
    if !fits(MIN_CHARS) {
        return MIN_CHARS;
    }
    let (mut fitting, mut too_long) = (MIN_CHARS, most);
    while fitting + 1 < too_long {
        let middle = fitting.midpoint(too_long);
        if fits(middle) {
            fitting = middle;
        } else {
            too_long = middle;
        }
    }
    fitting
}

/// Returns the first entries whose lines fit into `room` bytes, and the bytes that they use.
fn keep<'a>(entries: &[&'a ListedSkill], chars: usize, room: usize) -> (Vec<(&'a ListedSkill, usize)>, usize) {
    let mut used = 0;
    let fitting = entries.iter().take_while(|entry| {
        used += entry.bytes(chars);
        used <= room
    });
    let kept: Vec<_> = fitting.map(|entry| (*entry, chars)).collect();
    let used = kept.iter().map(|(entry, chars)| entry.bytes(*chars)).sum();
    (kept, used)
}

#[cfg(test)]
mod tests;

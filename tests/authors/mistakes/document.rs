//! docs/errors-for-authors.md: the output shown for each mistake.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use super::{
    corpus::{Edit, Mistake},
    shown,
};

const HEAD: &str = "# Errors for authors

<!-- Written by `make errors-for-authors`, which makes each mistake in a new plugin and runs the command. -->

What Patchbay shows for the mistakes that authors usually make, by language. Search this page for the message that you see. Each \
entry has the change that was made to a new plugin (`patchbay plugin new greet`), the command, and its output, without progress or \
numbers. [skills.md](skills.md) is the guide.
";

/// The part of the document about one language.
pub struct Section {
    language: &'static str,
    /// Title and text of each mistake, and whether the text depends on the author's compiler.
    entries: Vec<(String, bool)>,
}

impl Section {
    /// The languages, in the order of the document.
    pub const LANGUAGES: [&'static str; 4] = ["rust", "js", "python", "c"];

    pub fn of(language: &'static str) -> Self {
        Self { language, entries: Vec::new() }
    }

    pub fn add(&mut self, mistake: &Mistake, shown: &str) {
        let mut entry = format!("### {}\n", mistake.name);
        for Edit { file, from, to } in &mistake.edits {
            let _ = match (from, to) {
                (Some(from), Some(to)) => write!(entry, "\n`{file}`:\n\n{}", fenced("diff", &difference(from, to))),
                (Some(from), None) => write!(entry, "\n`{file}`:\n\n{}", fenced("diff", &difference(from, ""))),
                (None, Some(to)) => write!(entry, "\n`{file}`:\n\n{}", fenced("", to)),
                (None, None) => writeln!(entry, "\n`{file}` is removed."),
            };
        }
        if let (true, Some(at)) = (mistake.edits.is_empty(), &mistake.at) {
            let _ = write!(entry, "\n{}", fenced("", at));
        }
        let _ = write!(entry, "\n{}", fenced("", &format!("$ {}\n{}", mistake.command(), shown::excerpt(shown))));
        self.entries.push((entry, mistake.varies));
    }

    fn heading(&self) -> String {
        heading(self.language)
    }
}

fn heading(language: &str) -> String {
    let name = match language {
        "rust" => "Rust",
        "js" => "JavaScript",
        "python" => "Python",
        _ => "C",
    };
    format!("## {name}\n")
}

/// Returns a fenced block whose fence is longer than any in the text.
fn fenced(kind: &str, text: &str) -> String {
    let fence = if text.contains("```") { "````" } else { "```" };
    format!("{fence}{kind}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// Returns the changed lines of an edit.
fn difference(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.lines().collect(), to.lines().collect());
    let same = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
    let rest = |lines: &[&str]| lines.len() - same;
    let tail = from.iter().rev().zip(to.iter().rev()).take_while(|(from, to)| from == to).count();
    let tail = tail.min(rest(&from)).min(rest(&to));
    let removed = from[same..from.len() - tail].iter().map(|line| format!("-{line}"));
    let added = to[same..to.len() - tail].iter().map(|line| format!("+{line}"));
    removed.chain(added).collect::<Vec<_>>().join("\n")
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors-for-authors.md")
}

/// Writes the section of a language. The languages' tests may run concurrently.
pub fn update(section: &Section) {
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock();
    let old = fs::read_to_string(path()).unwrap_or_default();
    let mut text = HEAD.to_owned();
    for language in Section::LANGUAGES {
        let heading = heading(language);
        if language == section.language {
            let entries: Vec<&str> = section.entries.iter().map(|(entry, _)| entry.as_str()).collect();
            let _ = write!(text, "\n{}\n{}", section.heading(), entries.join("\n"));
        } else if let Some((_, kept)) = old.split_once(&format!("\n{heading}")) {
            let kept = kept.split("\n## ").next().unwrap_or_default();
            let _ = write!(text, "\n{heading}{}\n", kept.trim_end_matches('\n'));
        }
    }
    fs::write(path(), text).unwrap();
}

/// Checks that the document contains the actual output.
pub fn compare(section: &Section) {
    let text = fs::read_to_string(path()).unwrap_or_default();
    let outdated = section.entries.iter().find(|(entry, varies)| !varies && !text.contains(entry.as_str()));
    if let Some((entry, _)) = outdated {
        panic!("docs/errors-for-authors.md is outdated; run: make errors-for-authors. It does not contain:\n{entry}");
    }
}

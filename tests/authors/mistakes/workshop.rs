//! A new plugin in which the mistakes are made one after another.

use std::{
    fs,
    path::{Path, PathBuf},
};

use patchbay_tests::binary::Ran;

use super::{
    corpus::{Edit, Mistake, Running, Step},
    shown,
};
use crate::author::Author;

const NAME: &str = "greet";

pub struct Workshop {
    author: Author,
    running: Running,
}

/// The output that the author saw.
pub struct Answer {
    pub code: Option<i32>,
    pub text: String,
}

impl Workshop {
    /// Creates a plugin, and builds the skill with the mistakes that only show at run time.
    pub fn open(language: &str, running: Running) -> Self {
        let author = Author::of(language);
        author.succeed("", &["plugin", "new", NAME, "--lang", language]);
        Self { author, running }
    }

    fn folder(&self) -> PathBuf {
        self.author.work().join(NAME)
    }

    /// Makes a mistake, and undoes it.
    pub fn make(&self, mistake: &Mistake) -> Answer {
        let built = self.folder().join(format!("{NAME}.wasm"));
        if mistake.edits.is_empty() {
            let kept = self.author.work().join(format!("{NAME}.wasm"));
            if !kept.exists() {
                let undo = self.apply(&self.running.edits);
                self.author.succeed(NAME, &["plugin", "build"]);
                fs::rename(&built, &kept).unwrap();
                undo.run();
            }
            return self.answer(self.step(mistake, &kept));
        }
        let undo = self.apply(&mistake.edits);
        let ran = match mistake.step {
            Step::Build => self.author.run_in(NAME, &["plugin", "build"]),
            Step::CallUnbuilt => self.step(mistake, &self.folder()),
            Step::Call | Step::Exec => {
                self.author.succeed(NAME, &["plugin", "build"]);
                self.step(mistake, &built)
            }
        };
        undo.run();
        let _ = fs::remove_file(&built);
        self.answer(ran)
    }

    /// Runs the tool or the command of a built plugin.
    fn step(&self, mistake: &Mistake, built: &Path) -> Ran {
        if mistake.step != Step::Exec {
            let built = built.to_str().unwrap();
            return self.author.run(&["plugin", "call", built, &mistake.tool, &mistake.input]);
        }
        let installed = self.author.home().join(format!("config/skills/{NAME}.wasm"));
        fs::create_dir_all(installed.parent().unwrap()).unwrap();
        fs::copy(built, &installed).unwrap();
        let ran = self.author.run(&["exec", &format!("/{NAME} Ada")]);
        fs::remove_file(installed).unwrap();
        ran
    }

    fn answer(&self, ran: Ran) -> Answer {
        Answer { code: ran.code, text: shown::text(&ran, &self.author.work()) }
    }

    /// Returns FILE:LINE of the line that contains `at` in the first edited file.
    pub fn place(&self, mistake: &Mistake, at: &str) -> Result<String, String> {
        let edits = if mistake.edits.is_empty() { &self.running.edits } else { &mistake.edits };
        let file = &edits[0].file;
        let undo = self.apply(edits);
        let text = fs::read_to_string(self.folder().join(file)).unwrap();
        undo.run();
        let lines: Vec<usize> =
            text.lines().enumerate().filter(|(_, line)| line.contains(at)).map(|(index, _)| index + 1).collect();
        match lines[..] {
            [line] => Ok(format!("{file}:{line}")),
            _ => Err(format!("{} lines of {file} contain {at:?}", lines.len())),
        }
    }

    /// Changes files of the plugin.
    fn apply(&self, edits: &[Edit]) -> Undo {
        let mut undo = Undo(Vec::new());
        for Edit { file, from, to } in edits {
            let path = self.folder().join(file);
            let old = fs::read_to_string(&path).ok();
            undo.0.push((path.clone(), old.clone()));
            let new = match (from, to) {
                (Some(from), to) => {
                    let old = old.unwrap_or_default();
                    assert!(old.contains(from.as_str()), "{file} has no {from:?}:\n{old}");
                    Some(old.replacen(from.as_str(), to.as_deref().unwrap_or_default(), 1))
                }
                (None, to) => to.clone(),
            };
            put(&path, new.as_deref());
        }
        undo
    }
}

/// The files as they were before; `None` marks a file that did not exist.
struct Undo(Vec<(PathBuf, Option<String>)>);

impl Undo {
    fn run(self) {
        for (path, text) in self.0.into_iter().rev() {
            put(&path, text.as_deref());
        }
    }
}

fn put(path: &Path, text: Option<&str>) {
    match text {
        Some(text) => {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        None => fs::remove_file(path).unwrap(),
    }
}

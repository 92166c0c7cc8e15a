//! Common mistakes of authors, and Patchbay's response to each: file and line where known, the problem, and the fix.
//!
//! The mistakes are data in `mistakes/LANGUAGE.toml`; `corpus.rs` defines the fields of a case. By default only the cases with
//! `ci = true` run. AUTHOR_MISTAKES=all runs all cases, and UPDATE_DOCS=1 then writes docs/errors-for-authors.md.

mod corpus;
mod document;
mod shown;
mod workshop;

use std::env;

use self::{
    corpus::{Corpus, Mistake},
    document::Section,
    workshop::Workshop,
};

/// Runs the mistakes of a language, and fails with every response that differs from the corpus.
fn check(language: &'static str) {
    let is_complete = env::var("AUTHOR_MISTAKES").is_ok_and(|which| which == "all");
    let only = env::var("AUTHOR_MISTAKE").ok();
    let Corpus { running, mistakes } = Corpus::of(language);
    let workshop = Workshop::open(language, running);
    let (mut failures, mut section) = (Vec::new(), Section::of(language));
    for mistake in &mistakes {
        let is_chosen = match &only {
            Some(words) => mistake.name.contains(words.as_str()),
            None => is_complete || mistake.ci,
        };
        if !is_chosen {
            continue;
        }
        let answer = workshop.make(mistake);
        if let Err(missing) = answered(mistake, &answer.text, answer.code, &workshop) {
            failures.push(format!("{}: {missing}\n{}", mistake.name, answer.text));
        }
        if env::var_os("AUTHOR_SHOWN").is_some() {
            println!("== {}\n{}", mistake.name, answer.text);
        }
        section.add(mistake, &answer.text);
    }
    assert!(failures.is_empty(), "{} mistakes in {language}:\n\n{}", failures.len(), failures.join("\n\n"));
    match (is_complete && only.is_none(), env::var_os("UPDATE_DOCS")) {
        (true, Some(_)) => document::update(&section),
        _ => document::compare(&section),
    }
}

/// Checks the response to a mistake.
fn answered(mistake: &Mistake, text: &str, code: Option<i32>, workshop: &Workshop) -> Result<(), String> {
    let expected = if mistake.is_note { Some(0) } else { mistake.code.or(Some(1)) };
    if code != expected {
        return Err(format!("exit code {code:?}, not {expected:?}"));
    }
    let place = mistake.at.as_deref().map(|at| workshop.place(mistake, at)).transpose()?;
    let expected = mistake.shows.iter().chain(&place);
    match expected.into_iter().find(|words| !text.contains(words.as_str())) {
        Some(words) => Err(format!("the answer does not contain {words:?}")),
        None => Ok(()),
    }
}

/// Each language has thirty mistakes. Ten of them run by default.
#[test]
fn corpus_is_complete() {
    for language in Section::LANGUAGES {
        let Corpus { mistakes, .. } = Corpus::of(language);
        let quick = mistakes.iter().filter(|mistake| mistake.ci).count();
        assert_eq!((mistakes.len(), quick), (30, 10), "{language}");
        for (index, mistake) in mistakes.iter().enumerate() {
            let name = &mistake.name;
            assert!(!mistake.shows.is_empty(), "{language}: {name}: no words");
            assert!(mistakes[..index].iter().all(|other| other.name != *name), "{language}: {name}: twice");
        }
    }
}

#[test]
fn mistakes_in_rust() {
    check("rust");
}

#[test]
fn mistakes_in_javascript() {
    check("js");
}

#[test]
fn mistakes_in_python() {
    check("python");
}

#[test]
fn mistakes_in_c() {
    check("c");
}

//! Acknowledged lines survive a killed process exactly once.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
    thread,
};

use patchbay_tests::binary::Patchbay;

const ROUNDS: u64 = 12;
const LINES: u64 = 60;

/// Returns a random number below `end`.
fn any(end: u64) -> u64 {
    RandomState::new().hash_one(end) % end
}

/// Sends notes to one process and kills it meanwhile. Returns the acknowledged lines with their answers.
fn round(patchbay: &Patchbay, session: &str, round: u64) -> Vec<(String, String)> {
    let mut child = patchbay.command(&["exec", "--session", session]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: Vec<String> = (0..LINES).map(|n| format!("/note add round {round} note {n}")).collect();
    let text = lines.join("\n") + "\n";
    // The process may die while it reads: a broken pipe here.
    let writer = thread::spawn(move || drop(input.write_all(text.as_bytes())));
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let wanted = usize::try_from(any(LINES - 10)).unwrap();
    let mut acknowledged: Vec<String> = output.by_ref().take(wanted).map(Result::unwrap).collect();
    // The kill hits any moment between two answers.
    (0..any(3_000_000)).for_each(|_| std::hint::spin_loop());
    child.kill().unwrap();
    child.wait().unwrap();
    writer.join().unwrap();
    // Lines that it printed before it died are acknowledged.
    acknowledged.extend(output.map(Result::unwrap));
    assert!(acknowledged.len() >= wanted, "it ended by itself");
    lines.into_iter().zip(acknowledged).collect()
}

/// Returns all notes by number, from all pages.
fn notes(patchbay: &Patchbay, session: &str) -> BTreeMap<u64, String> {
    let mut notes = BTreeMap::new();
    let mut next = Some("/note list".to_owned());
    while let Some(line) = next.take() {
        let page = patchbay.run(&["exec", "--session", session, &line]);
        assert_eq!((page.code, &*page.err), (Some(0), ""));
        for line in page.out.lines() {
            match line.strip_prefix("More notes: ") {
                Some(more) => next = Some(more.to_owned()),
                None => {
                    let (number, text) = line.split_once(". ").unwrap();
                    assert_eq!(notes.insert(number.parse().unwrap(), text.to_owned()), None, "{line} is there twice");
                }
            }
        }
    }
    notes
}

#[test]
fn kill_9_neither_loses_nor_repeats_acknowledged_lines() {
    let patchbay = Patchbay::new();
    let session = patchbay.live(&[]).session().to_owned();
    let acknowledged: Vec<(String, String)> = (0..ROUNDS).flat_map(|n| round(&patchbay, &session, n)).collect();

    for name in ["patchbay.db", "kv.db"] {
        let check: String = patchbay.database(name).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok", "{name}");
    }

    let notes = notes(&patchbay, &session);
    for (line, words) in &acknowledged {
        let number: u64 = words.strip_prefix("Note ").unwrap().strip_suffix(" added.").unwrap().parse().unwrap();
        assert_eq!(notes.get(&number).map(String::as_str), line.strip_prefix("/note add "), "{words}");
    }
    let mut texts: Vec<_> = notes.values().collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), notes.len(), "a note was added twice");
    // Each round may have stored one note more than it acknowledged: the one in progress.
    assert!(notes.len() <= acknowledged.len() + ROUNDS as usize, "{} of {}", acknowledged.len(), notes.len());

    let database = patchbay.database("patchbay.db");
    let rows: BTreeMap<String, String> = database
        .prepare("SELECT content, json_extract(data, '$.message') FROM messages WHERE session = ? AND kind = 'command'")
        .unwrap()
        .query_map([&session], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    for (line, words) in &acknowledged {
        assert_eq!(rows.get(line), Some(words), "{line}");
    }
    let (count, last): (i64, i64) = database
        .query_row("SELECT count(*), max(seq) FROM messages WHERE session = ?", [&session], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(count, last, "the rows are numbered without a gap");
}

#[test]
fn killed_reload_is_atomic() {
    let patchbay = Patchbay::new();
    let session = patchbay.live(&[]).session().to_owned();
    let mut version = 1;
    for n in 0..6 {
        patchbay.skill(&format!("skill{n}"), &format!("summary: Number {n}"), "Do it.");
        let mut command = patchbay.command(&["exec", "--session", &session]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"/calc 1\n/reload_skills\n/reload_skills\n/reload_skills\n").unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(output.next().unwrap().unwrap(), "1");
        (0..any(3_000_000)).for_each(|_| std::hint::spin_loop());
        child.kill().unwrap();
        child.wait().unwrap();
        let told = output.map(Result::unwrap).filter_map(|line| {
            line.strip_prefix("Reloaded skills for current session. version=")?.split(' ').next()?.parse::<u64>().ok()
        });
        let told = told.last().unwrap_or(version);
        let answer = patchbay.answers_in(&["--session", &session], &["/skills"]).remove(0);
        let found = answer.data()["version"].as_u64().unwrap();
        assert!(told <= found && found <= version + 3, "told {told}, found {found}");
        let has = answer.message().contains(&format!("skill{n} - Number {n}"));
        assert_eq!(has, found > version, "version and skills are of one mind");
        version = found;
        // The skills of the next round differ from these.
        if !has {
            let reloaded = patchbay.answers_in(&["--session", &session], &["/reload_skills"]);
            version = reloaded[0].data()["version"].as_u64().unwrap();
        }
    }
}

//! A tool's search of a whole repository, compared with a program that does nothing else.

use std::{fs, path::Path, process::Command, time::Instant};

use patchbay_tests::{
    binary::Patchbay,
    format::{CHAT, chat_calls},
    server::{Server, body},
};
use serde_json::{Value, json};

use crate::{
    nanoseconds,
    report::{Report, Samples, ms_row},
};

const FILES: usize = 50_000;
const IN_FOLDER: usize = 100;
/// One file in this many has a hit.
const HIT_EVERY: usize = 2_500;
const SEARCHES: usize = 10;

pub fn measure(report: &mut Report) {
    let server = Server::new(|request| match body(request).contains("\"role\":\"tool\"") {
        true => CHAT.answer_with(&["Done."]),
        false => chat_calls(&json!([["grep__search", {"pattern": "needle +="}]])),
    });
    let patchbay = CHAT.home(&server, "");
    write_repository(&patchbay.workspace());
    let turn = || {
        let ran = patchbay.exec(&[&format!("/model {}", CHAT.model), "Search."]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    };
    // Compiles the skill.
    turn();
    let (mut turns, mut floor, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SEARCHES {
        floor.push(grep(&patchbay));
        turns.push(time(turn));
        plain.push(time(|| assert_eq!(patchbay.exec(&["/skills"]).code, Some(0))));
    }
    let requests = server.requests();
    let result: Value = serde_json::from_str(body(requests.last().unwrap())).unwrap();
    let result = result["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
    let hits = result.matches("let needle = 1").count();
    report.section(
        "A search of a repository",
        &format!(
            "A workspace of {FILES} files in {} folders, of which {} have a line that matches `needle +=`. A turn in a process of its \
             own, in which the model calls `grep__search` once, and beside it `exec /skills`, which has no turn, and the system's \
             `grep -rEn`, which reads the same files on one core. Hits of the call: {hits}. Milliseconds.",
            FILES / IN_FOLDER,
            FILES / HIT_EVERY
        ),
    );
    let rows = [("`grep -rEn`", floor), ("the turn", turns), ("`exec /skills`", plain)];
    report.table(&["", "p50", "p99"], &rows.map(|(name, times)| ms_row(name, &Samples::new(times))));
}

fn time(run: impl FnOnce()) -> u64 {
    let start = Instant::now();
    run();
    nanoseconds(start)
}

fn grep(patchbay: &Patchbay) -> u64 {
    let start = Instant::now();
    let found = Command::new("grep").args(["-rEn", "needle +="]).current_dir(patchbay.workspace()).output().unwrap();
    let time = nanoseconds(start);
    assert_eq!(String::from_utf8(found.stdout).unwrap().lines().count(), FILES / HIT_EVERY);
    time
}

fn write_repository(workspace: &Path) {
    for number in 0..FILES {
        let folder = workspace.join(format!("packages/p{}/src", number / IN_FOLDER));
        if number % IN_FOLDER == 0 {
            fs::create_dir_all(&folder).unwrap();
        }
        let hit = if number % HIT_EVERY == HIT_EVERY - 1 { "  let needle = 1;\n" } else { "" };
        fs::write(folder.join(format!("f{number}.txt")), "  let straw = \"as most lines are\";\n".repeat(12) + hit)
            .unwrap();
    }
}

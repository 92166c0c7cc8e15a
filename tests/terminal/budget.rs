//! Budgets of the terminal: the bytes that it writes for one answer, which matter on a slow connection or in a nested terminal, and
//! the time until a key is shown.

use std::{
    env,
    time::{Duration, Instant},
};

use patchbay_tests::{
    binary::Patchbay,
    format::{CHAT, KEY},
    server::Server,
    terminal::Terminal,
};

use crate::model::Script;

/// Time from a key to the screen, which 99 of 100 keys meet even while other tests run. A frame takes up to 33 ms.
const KEY_TIME: Duration = Duration::from_millis(250);

/// Bytes for the whole session: start, message, answer.
const BUDGET: usize = 20 * 1024;

const THINKING: &str = "The person moves a shop to another database.\nThe rows are many, so a plain copy takes a night.\n\
    Reads can go on meanwhile; writes need a log.\nI should give an order, the times and one command.\n";

/// About 1.4 KB that use the constructs of Markdown.
const ANSWER: &str = "## Moving the shop\n\nThe database moves in **three steps**, and the shop stays *open* for readers all \
    the time. Only the last step needs a pause, and it takes less than a minute if you have compared both sides before. The \
    longest step is the copy, which takes a night for tables of this size.\n\n### Order\n\n1. Copy the rows into the new \
    database while the old one is in use.\n2. Compare both sides:\n   - the number of rows of each table\n   - the checksums \
    of the last day\n3. Stop the writers, apply the log, and switch over.\n\n> Do not skip the comparison: a table without \
    a primary key is copied twice without any warning.\n\n| Step | Minutes | Who |\n| :--- | ---: | :---: |\n| Copy | 480 \
    | cron |\n| Compare | 15 | you |\n| Switch | 1 | both |\n\n```sh\npg_dump --format=directory --jobs=4 shop > shop.dump\n\
    pg_restore --jobs=4 --dbname=shop_new shop.dump\npsql shop_new --command='ANALYZE'\n```\n\nAfter the switch, keep the old \
    database for a week, and do not delete its log: it is the only way back if an order is missing. See [the manual of the \
    database](https://example.org/manual/backup) for the options of `pg_dump`, and remember that `--jobs` needs as many \
    connections as it has workers. On a machine with little memory, start with two workers and look at the load before you take \
    more.\n\n- [x] copy\n- [ ] compare\n- [ ] switch\n\nThat is **all**: the move is boring, and that \
    is how it should be.\n";

/// Returns a home whose default model is at `server`.
fn home(server: &Server) -> Patchbay {
    let mut patchbay = Patchbay::new();
    patchbay.set(CHAT.variable, KEY);
    patchbay.write("home/config/config.toml", format!("default_model = \"{}\"\n{}", CHAT.model, CHAT.table(server)));
    patchbay
}

/// 30 pieces per second, in a window of 100 columns and 32 rows.
#[test]
fn answer_of_1400_bytes_writes_at_most_20_kilobytes() {
    let server = Server::scripted(|_| Script::slow(33).thinking(THINKING).text(ANSWER).end());
    let patchbay = home(&server);
    let terminal = Terminal::sized(&patchbay, 100, 32, &[]);
    terminal.wait_for_prompt();
    terminal.press("How do I move the shop?\r");
    terminal.wait_for_text("That is all: the move is boring, and that is how it should be.");
    terminal.wait_until("the answer ends", || !terminal.lines().iter().any(|line| line.starts_with("* ")));
    let written = terminal.written();
    let frames = written.matches("\x1b[?2026h").count();
    println!(
        "an answer of {} bytes with {} bytes of thinking: {} bytes written in {frames} frames",
        ANSWER.len(),
        THINKING.len(),
        written.len()
    );
    assert!((1_300..1_800).contains(&ANSWER.len()), "{}", ANSWER.len());
    assert!(written.len() <= BUDGET, "{} bytes are written; the budget is {BUDGET}", written.len());
    for sequence in ["\x1b[2J", "\x1b[3J", "\x1b[6n", "\x1b[?1049h", "\x1b[?1000h", "\x1b[r"] {
        assert!(!written.contains(sequence), "{sequence:?} is written");
    }
}

/// With 10,000 lines of earlier answers, and 1,000 skills to complete.
#[test]
fn keys_are_shown_at_once_in_a_long_session() {
    if env::var("TERMINAL_TESTS").as_deref() != Ok("all") {
        return;
    }
    let lines: String = (0..100).map(|_| "line\n\n".repeat(100) + " ").collect();
    let server = Server::scripted(move |_| Script::new().text(&lines).text("\n\nThe end.\n").end());
    let patchbay = home(&server);
    (0..1_000).for_each(|number| patchbay.skill(&format!("skill_{number}"), "summary: A skill", "Do it."));
    let terminal = Terminal::sized(&patchbay, 100, 32, &[]);
    terminal.wait_for_prompt();
    terminal.press("Count.\r");
    terminal.wait_for_text("The end.");
    terminal.wait_until("the answer ends", || !terminal.lines().iter().any(|line| line.starts_with("* ")));
    let mut times = Vec::new();
    let word = "/help skill_";
    for _ in 0..8 {
        for key in word.chars().chain(word.chars().map(|_| '\x7f')) {
            let (before, start) = (terminal.cursor(), Instant::now());
            terminal.press(&key.to_string());
            terminal.wait_until("the key is shown", || terminal.cursor() != before);
            times.push(start.elapsed());
        }
    }
    times.sort();
    let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("from key to screen: p50 {} ms, p99 {} ms", p50.as_millis(), p99.as_millis());
    assert!(p99 <= KEY_TIME, "p99 is {p99:?}; the limit is {KEY_TIME:?}");
}

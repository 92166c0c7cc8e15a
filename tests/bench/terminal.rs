//! Measures the terminal through a pseudo-terminal: how long a key or a piece of an answer takes to reach the screen, the CPU time
//! of an answer, the time to start, and the memory.

mod answers;
mod model;
mod window;

use std::{
    cell::RefCell,
    process::Command,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::binary::Patchbay;

use self::{
    answers::{SHAPES, lines},
    model::{Answer, Model},
    window::Window,
};
use crate::report::{Report, Samples, ms, us};

const SKILLS: usize = 1_000;
/// Number of lines already in the scrollback.
const LINES: usize = 10_000;
const KEYS: usize = 150;
/// Pieces of an answer that are 33 ms apart.
const PIECES: usize = 240;
/// Number of pieces of an answer that are 80 ms apart, which is longer than the time between two frames.
const LONE_PIECES: usize = 100;
/// Bytes of the shortest answer whose CPU time is measured.
const BYTES: usize = 100_000;
/// The end of a long answer.
const LAST: &str = "\n\nThese were all.\n";
const STARTS: usize = 8;
/// The key Ctrl+U, which removes the typed text.
const CLEAR: &str = "\x15";

pub fn measure(report: &mut Report) {
    let model = Model::new();
    let home = model.home(SKILLS);
    // Reads the skills and compiles the adapter.
    assert_eq!(home.exec(&["/skills"]).code, Some(0));
    report.section(
        "The terminal",
        &format!(
            "The binary in a pseudo-terminal of 100 columns and 32 rows, in a home with {SKILLS} skills. Keys and pieces of answers \
             are measured after an answer of {LINES} lines. The model is a server on this machine. Two frames \
             are at least 33 ms apart, or 50 ms if the second one only shows more of an answer; a change that comes later than that is drawn at once. The floor is a simple \
             program; its measurements alternate with Patchbay's, in a pseudo-terminal of its own."
        ),
    );
    report.text_block(
        "From a key that is written to the pseudo-terminal until its effect is read there. Keys are at least 50 ms apart; the \
         menu is that of a thousand commands. While an answer streams, a piece comes every 20 to 60 ms, and a key waits for \
         the frame that is due. The floor is `cat` in raw mode. Milliseconds.",
    );
    keys(report, &model, &home);
    report.text_block(&format!(
        "From the server's write of a piece of an answer until its last word is read from the pseudo-terminal. {PIECES} pieces \
         are 33 ms apart, as models send them; {LONE_PIECES} others are 80 ms apart, which is longer than the time between two \
         frames. The floor is a script that copies a socket to the terminal by `cat`; it gets the same pieces. Milliseconds."
    ));
    deltas(report, &model, &home);
    report.text_block(&format!(
        "CPU time of the whole process for an answer of {} KB, of two and of four times that, sent as fast as possible, in \
         milliseconds. *Growth* is the time per byte of the longest answer, divided by the time per byte of the answer half \
         as long: 1 is linear, 2 quadratic. *A KB* is the time per KB of the longest answer, in microseconds; *plain* is \
         the same with `--plain`, which prints answers as \
         they are.",
        BYTES / 1_000
    ));
    cpu(report, &model, &home);
    report.text_block(
        "From the start of the process until the prompt can be read, and the peak memory (VmHWM) a moment later: with the \
         bundled skills and with a thousand more. The floor is `cat`. Milliseconds and MiB.",
    );
    starts(report, &home);
}

/// Opens the terminal and waits for its prompt.
fn open(home: &Patchbay) -> Window {
    let mut window = Window::open(&home.command(&[]));
    window.wait_for_row(">");
    window
}

/// Opens the terminal and has an answer of many lines printed.
fn answered(model: &Model, home: &Patchbay) -> Window {
    let mut window = open(home);
    window.press("hello\r");
    let mut answer = model.answer();
    answer.send_all(&lines(LINES));
    answer.send_all(LAST);
    answer.end();
    wait_until_idle(&mut window);
    window
}

/// Like [`answered`], with another answer that has begun.
fn answering(model: &Model, home: &Patchbay) -> (Window, Answer) {
    let mut window = answered(model, home);
    window.press("more\r");
    let mut answer = model.answer();
    answer.send("This goes on.\n\n");
    window.wait_for_row("This goes on.");
    (window, answer)
}

/// Waits until the answer is on the screen and nothing runs.
fn wait_until_idle(window: &mut Window) {
    window.wait("the answer ends", |rows| {
        let is_there = |expected: &str| rows.iter().any(|row| row == expected);
        is_there(LAST.trim()) && is_there(">") && !rows.iter().any(|row| row.starts_with("* "))
    });
}

/// Waits until the status row names an agent other than `before`, and returns its short id.
fn wait_for_another_view(window: &mut Window, before: &str) -> String {
    let view = RefCell::new(String::new());
    window.wait("another agent is in view", |rows| {
        let status = rows.iter().rfind(|row| !row.is_empty());
        let Some((id, _)) = status.and_then(|row| row.split_once(" · ")) else { return false };
        let is_another = id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) && id != before;
        if is_another {
            view.replace(id.to_owned());
        }
        is_another
    });
    view.into_inner()
}

/// Measures typing while `count` agents answer.
pub fn typing_while_agents_answer(report: &mut Report, count: usize) {
    let home = Patchbay::new();
    home.write("home/config/config.toml", "[limits]\nconcurrent_requests = 64\nagents = 100\n");
    let mut window = open(&home);
    let mut times: [Vec<u64>; 2] = Default::default();
    let mut typed = String::new();
    for (round, times) in times.iter_mut().enumerate() {
        if round == 1 {
            window.press(CLEAR);
            window.wait_for_row(">");
            let mut root = String::new();
            for _ in 0..count {
                window.press("/fork \"repeat 1500 word\"\r");
                let child = wait_for_another_view(&mut window, &root);
                window.press("/switch root\r");
                root = wait_for_another_view(&mut window, &child);
            }
        }
        for key in 0..KEYS {
            if key % 12 == 0 {
                typed.clear();
                window.press(CLEAR);
                window.wait_for_row(">");
                thread::sleep(Duration::from_millis(100));
            }
            let letter = char::from(b'a' + u8::try_from(key % 26).unwrap()).to_string();
            typed.push_str(&letter);
            let start = window.press(&letter);
            times.push(window.wait_for_row(&format!("> {typed}")).duration_since(start).as_nanos() as u64);
            thread::sleep(Duration::from_millis(50));
        }
    }
    let [alone, among] = times.map(Samples::new);
    let row =
        |name: &str, samples: &Samples| vec![name.to_owned(), ms(samples.percentile(50)), ms(samples.percentile(99))];
    report.text_block(
        "From a key that is written to the pseudo-terminal until its letter is read there: first while nothing else \
         runs, then while the agents of the session answer. Milliseconds.",
    );
    let name = format!("{count} agents answer");
    report.table(&["", "p50", "p99"], &[row("nothing runs", &alone), row(&name, &among)]);
}

fn keys(report: &mut Report, model: &Model, home: &Patchbay) {
    let mut echo = Window::open(Command::new("sh").args(["-c", "stty raw -echo; echo ready; exec cat"]));
    echo.wait_for("ready");
    let (mut idle, mut menu) = (answered(model, home), answered(model, home));
    let (mut streaming, answer) = answering(model, home);
    let stop = go_on(answer);
    let mut times: [Vec<u64>; 5] = Default::default();
    let mut random = Random(1);
    let mut typed = String::new();
    for round in 0..KEYS {
        if round % 12 == 0 {
            typed.clear();
            echo.press("\r\n");
            for window in [&mut idle, &mut streaming] {
                window.press(CLEAR);
                window.wait_for_row(">");
            }
            thread::sleep(Duration::from_millis(100));
        }
        let letter = char::from(b'a' + u8::try_from(round % 26).unwrap()).to_string();
        typed.push_str(&letter);
        let row = format!("> {typed}");
        let key = |window: &mut Window, row: &str| {
            let start = window.press(&letter);
            time(start, window.wait_for_row(row))
        };
        let (floor, plain, busy) = (key(&mut echo, &typed), key(&mut idle, &row), key(&mut streaming, &row));
        let (command, filtered) = menu_key(&mut menu, round);
        for (times, time) in times.iter_mut().zip([floor, plain, command, filtered, busy]) {
            times.push(time);
        }
        thread::sleep(Duration::from_millis(random.between(50, 80)));
    }
    drop(stop);
    let names = [
        "`cat`",
        "a letter of a message",
        "a letter of a command",
        "the menu after that letter",
        "a letter while an answer streams",
    ];
    percentiles(report, &names, times);
}

/// Continues an answer until the returned value is dropped, with a word every 20 to 60 ms.
fn go_on(mut answer: Answer) -> Sender<()> {
    let (stop, stopped) = channel();
    let mut random = Random(7);
    thread::spawn(move || {
        for word in 0.. {
            let pause = Duration::from_millis(random.between(20, 60));
            if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            answer.send(&word_text(word));
        }
    });
    stop
}

/// Types the next letter of a command. Returns the time until the letter is shown, and until the menu matches the text.
fn menu_key(window: &mut Window, round: usize) -> (u64, u64) {
    const COMMAND: &str = "/z427";
    let at = round % COMMAND.len();
    if at == 0 {
        window.press(CLEAR);
        window.wait_for_row(">");
        thread::sleep(Duration::from_millis(60));
    }
    let (typed, row) = (&COMMAND[..=at], format!("> {}", &COMMAND[..=at]));
    let start = window.press(&COMMAND[at..=at]);
    let letter = window.wait_for_row(&row);
    // The first item of the menu is below the text.
    let filtered = window.wait("the menu is filtered", |rows| {
        let below = rows.iter().skip_while(|other| **other != row).nth(1);
        below.is_some_and(|item| item.starts_with(typed))
    });
    (time(start, letter), time(start, filtered.max(letter)))
}

fn deltas(report: &mut Report, model: &Model, home: &Patchbay) {
    let port = model.origin.rsplit(':').next().unwrap();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET / HTTP/1.1\\r\\n\\r\\n' >&3; exec cat <&3");
    let mut relay = Window::open(Command::new("bash").args(["--norc", "-c", &script]));
    let mut copied = model.answer();
    relay.wait_for("event-stream");
    let (mut window, mut answer) = answering(model, home);
    let mut random = Random(3);
    let mut times: [Vec<u64>; 4] = Default::default();
    for (count, pause, [floor, own]) in [(PIECES, 33, [0, 1]), (LONE_PIECES, 80, [2, 3])] {
        let mut sent: [Vec<Instant>; 2] = Default::default();
        let first = times[0].len();
        for word in first..first + count {
            let piece = word_text(word);
            // The two sends are some milliseconds apart; otherwise the two programs would compete for the processor.
            let apart = random.between(5, pause - 5);
            sent[0].push(copied.send(&piece));
            thread::sleep(Duration::from_millis(apart));
            sent[1].push(answer.send(&piece));
            thread::sleep(Duration::from_millis(pause - apart));
        }
        for (window, sent, kind) in [(&mut relay, &sent[0], floor), (&mut window, &sent[1], own)] {
            for (word, sent) in (first..).zip(sent) {
                let text = word_text(word);
                let text = text.trim_end();
                let seen = window.wait_for(text);
                times[kind].push(time(*sent, seen));
            }
        }
    }
    drop(copied);
    answer.end();
    let names = [
        "`cat`, pieces 33 ms apart",
        "Patchbay, pieces 33 ms apart",
        "`cat`, pieces 80 ms apart",
        "Patchbay, pieces 80 ms apart",
    ];
    percentiles(report, &names, times);
}

/// Returns a word of an answer, with the separator after it. Its end must not be the beginning of the provider's API key in any
/// encoding: the host removes that key from answers, and would keep such text back until more arrives.
fn word_text(number: usize) -> String {
    format!("word{number:04}x{}", if number % 8 == 7 { ".\n\n" } else { " " })
}

fn percentiles<const KINDS: usize>(report: &mut Report, names: &[&str; KINDS], times: [Vec<u64>; KINDS]) {
    let rows: Vec<_> = names
        .iter()
        .zip(times)
        .map(|(name, times)| {
            let times = Samples::new(times);
            let [p50, p90, p99] = [50, 90, 99].map(|percent| ms2(times.percentile(percent)));
            vec![(*name).to_owned(), p50, p90, p99]
        })
        .collect();
    report.table(&["", "p50", "p90", "p99"], &rows);
}

/// Returns the nanoseconds between the two times.
fn time(start: Instant, end: Instant) -> u64 {
    u64::try_from(end.saturating_duration_since(start).as_nanos()).unwrap()
}

/// Formats nanoseconds as milliseconds with two digits.
fn ms2(nanoseconds: u64) -> String {
    us(nanoseconds / 1_000)
}

fn cpu(report: &mut Report, model: &Model, home: &Patchbay) {
    let mut rows = Vec::new();
    for (name, shape) in SHAPES {
        let [one, two, four] = [1, 2, 4].map(|times| {
            let text = shape(BYTES * times);
            [&["--plain"][..], &[]].map(|arguments| cpu_of(&text, model, home, arguments))
        });
        let growth = four[1] * 50 / two[1];
        let [plain, own] = four.map(|time| us(time / (4 * BYTES as u64 / 1_000)));
        let growth = format!("{}.{:02}", growth / 100, growth % 100);
        rows.push(vec![name.to_owned(), ms(one[1]), ms(two[1]), ms(four[1]), growth, own, plain]);
    }
    report.table(&["", "1", "2", "4", "growth", "a KB", "a KB, plain"], &rows);
}

/// Returns the CPU time of an answer.
fn cpu_of(text: &str, model: &Model, home: &Patchbay, arguments: &[&str]) -> u64 {
    let mut window = Window::open(&home.command(arguments));
    window.wait_for_row(">");
    // The work of a first line is not measured.
    window.press("/start\r");
    window.wait_for("unknown command '/start'");
    let before = window.cpu_time();
    window.press("hello\r");
    let mut answer = model.answer();
    answer.send_all(text);
    answer.send_all(LAST);
    answer.end();
    window.wait_for_row(LAST.trim());
    // Leaves time for the line to be stored and the last frames to be drawn.
    thread::sleep(Duration::from_millis(150));
    window.cpu_time() - before
}

fn starts(report: &mut Report, home: &Patchbay) {
    let few = Patchbay::new();
    assert_eq!(few.exec(&["/skills"]).code, Some(0));
    let mut times: [Vec<u64>; 3] = Default::default();
    let mut peaks = [0; 3];
    let mut cat = Command::new("sh");
    cat.args(["-c", "echo '>'; exec cat"]);
    let commands = [cat, few.command(&[]), home.command(&[])];
    for _ in 0..STARTS {
        for (kind, command) in commands.iter().enumerate() {
            let start = Instant::now();
            let mut window = Window::open(command);
            let end = window.wait_for_row(">");
            times[kind].push(time(start, end));
            thread::sleep(Duration::from_millis(100));
            peaks[kind] = peaks[kind].max(window.peak_memory());
        }
    }
    let names = ["`cat`", "the bundled skills", "a thousand more"];
    let rows: Vec<_> = names
        .iter()
        .zip(times)
        .zip(peaks)
        .map(|((name, times), peak)| {
            let times = Samples::new(times);
            vec![(*name).to_owned(), ms(times.percentile(50)), ms(times.percentile(99)), (peak >> 10).to_string()]
        })
        .collect();
    report.table(&["", "p50", "p99", "memory"], &rows);
}

/// A random number generator with the same numbers in each run (xorshift).
struct Random(u64);

impl Random {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        least + self.0 % (most - least + 1)
    }
}

//! Every example of the five documents that Patchbay grew from, as rows of a table that the binary runs. A document is called a
//! seed and has a number. The seeds are not part of the repository, so their examples are quoted here.
//!
//! An example is a typed command, a usage line, an error text, a row of a table, a tool's signature, a key of a SKILL.md, or a
//! column. Where the design reconciles seeds with each other or with the current state, a row lists the numbers of the
//! reconciliations.

mod acp_commands;
mod command_surface;
mod model_and_fork;
mod model_override;
mod sub_agents;

use std::{collections::BTreeSet, fmt::Debug};

use patchbay_tests::answers::{Answer, Live};

/// The lines of each seed with an example, extracted by hand. The test fails if a row is missing or has another line.
const EXAMPLES: [(&str, &[u16]); 5] = [
    ("000 /model and /fork", model_and_fork::LINES),
    ("001 command surface", command_surface::LINES),
    ("002 slash commands over ACP", acp_commands::LINES),
    ("003 model override", model_override::LINES),
    ("004 sub-agent tools", sub_agents::LINES),
];

/// An example that is typed.
struct Row {
    /// The lines of the seed that contain the example.
    lines: &'static [u16],
    /// The example as written in the seed.
    example: &'static str,
    /// The typed text, if it is not the example itself.
    typed: Option<&'static str>,
    shown: Shown,
    /// The reconciliations that apply.
    reconciled: &'static [u8],
}

/// The expected text: the code of the outcome, a colon, and its message.
enum Shown {
    Is(&'static str),
    Has(&'static [&'static str]),
}

use Shown::{Has, Is};

const fn row(lines: &'static [u16], example: &'static str, shown: Shown) -> Row {
    Row { lines, example, typed: None, shown, reconciled: &[] }
}

impl Row {
    const fn typed(mut self, typed: &'static str) -> Self {
        self.typed = Some(typed);
        self
    }

    const fn reconciled(mut self, rows: &'static [u8]) -> Self {
        self.reconciled = rows;
        self
    }
}

/// The rows of one seed that were run.
#[derive(Default)]
struct Table {
    lines: BTreeSet<u16>,
    failures: Vec<String>,
}

impl Table {
    /// Types the rows one after another and returns their answers. Names such as `CHILD` are replaced with UUIDs in the typed and
    /// in the expected text.
    fn type_all(&mut self, live: &mut Live, rows: &[Row], names: &[(&str, &str)]) -> Vec<Answer> {
        let named = |text: &str| names.iter().fold(text.to_owned(), |text, (name, uuid)| text.replace(name, uuid));
        let run = |row: &Row| {
            let answer = live.answer(&named(row.typed.unwrap_or(row.example)));
            let found = format!("{}: {}", answer.code(), answer.message());
            let expected: Vec<String> = match row.shown {
                Is(whole) => vec![named(whole)],
                Has(parts) => parts.iter().map(|part| named(part)).collect(),
            };
            let holds = match row.shown {
                Is(_) => found == expected[0],
                Has(_) => expected.iter().all(|part| found.contains(part)),
            };
            self.note(row.lines, row.example, row.reconciled, holds, &(found, expected));
            answer
        };
        rows.iter().map(run).collect()
    }

    /// Records an example that is not typed: the actual value must equal the expected one.
    fn equal<T: PartialEq + Debug>(&mut self, lines: &[u16], example: &str, found: T, expected: T) {
        let holds = found == expected;
        self.note(lines, example, &[], holds, &(found, expected));
    }

    /// Records an example that is not typed: the actual text must contain all `parts`.
    fn has(&mut self, lines: &[u16], example: &str, found: &str, parts: &[&str]) {
        self.note(lines, example, &[], parts.iter().all(|part| found.contains(part)), &(found, parts));
    }

    fn note(&mut self, lines: &[u16], example: &str, reconciled: &[u8], holds: bool, seen: &dyn Debug) {
        self.lines.extend(lines);
        if !holds {
            self.failures.push(format!("lines {lines:?}, `{example}`, reconciled by {reconciled:?}: {seen:#?}"));
        }
    }
}

#[test]
fn every_example_of_the_seeds_holds() {
    let run: [fn(&mut Table); 5] =
        [model_and_fork::run, command_surface::run, acp_commands::run, model_override::run, sub_agents::run];
    // Each seed has its own home, so they run concurrently.
    let tables = std::thread::scope(|scope| {
        let running = run.map(|run| {
            scope.spawn(move || {
                let mut table = Table::default();
                run(&mut table);
                table
            })
        });
        running.map(|table| table.join().expect("the seed runs to its end"))
    });
    let mut failures = Vec::new();
    for ((seed, lines), table) in EXAMPLES.into_iter().zip(tables) {
        failures.extend(table.failures.into_iter().map(|failure| format!("seed {seed}, {failure}")));
        assert_eq!(table.lines, lines.iter().copied().collect(), "the rows of seed {seed} and its examples");
        assert!(lines.is_sorted_by(|before, after| before < after), "{seed}");
    }
    assert!(failures.is_empty(), "{} rows fail:\n{}", failures.len(), failures.join("\n"));
}

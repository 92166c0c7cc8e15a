//! One snapshot returns identical bytes in repeated runs, in other places and environments.

use std::collections::BTreeSet;

use patchbay_tests::{
    answers::json_lines,
    binary::{Patchbay, ran},
};
use serde_json::Value;

/// Commands and pure tools, with results and errors.
const LINES: &[&str] = &[
    "/skills",
    "/commands",
    "/help calc",
    "/calc 2^521 - 1",
    "/calc 1/3",
    "/calc 100 Mbps * 1 h in GB",
    "/calc sqrt(2, 50)",
    "/calc 1 MB + 1 s",
    "/json sort_by(@, &age)[].{who: name, age: age} [{\"name\": \"Ada\", \"age\": 36.5}, {\"name\": \"Bo\", \"age\": 19}]",
    "/json avg(@) [0.1, 0.2, 0.3]",
    "/json keys(@) {\"z\": 1, \"ä\": 2, \"a\": 3}",
    "/json a b c",
    "/nope",
];

fn options<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    [&["exec", "--json", "--keep-going"], lines].concat()
}

/// Returns the outcomes of a run, without ids and events.
fn outcomes(out: &str) -> Vec<Value> {
    json_lines(out).into_iter().filter(|object| object.get("line").is_some()).collect()
}

#[test]
fn hundred_runs_in_one_session_return_identical_bytes() {
    let patchbay = Patchbay::new();
    let lines: Vec<&str> = std::iter::repeat_n(LINES, 100).flatten().copied().collect();
    let outcomes = outcomes(&patchbay.run(&options(&lines)).out);
    assert_eq!(outcomes.len(), LINES.len() * 100);
    for (n, line) in LINES.iter().enumerate() {
        let seen: BTreeSet<String> = outcomes.iter().skip(n).step_by(LINES.len()).map(Value::to_string).collect();
        assert_eq!(seen.len(), 1, "{line}: {seen:?}");
    }
}

#[test]
fn output_does_not_depend_on_the_environment() {
    let patchbay = Patchbay::new();
    let expected = outcomes(&patchbay.run(&options(LINES)).out);
    assert_eq!(expected.len(), LINES.len());
    let workspace = patchbay.workspace();
    let workspace = workspace.to_str().unwrap();
    let elsewhere = patchbay.folder().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let surroundings: &[&[(&str, &str)]] = &[
        &[],
        &[("LANG", "de_DE.UTF-8"), ("LC_ALL", "de_DE.UTF-8")],
        &[("LANG", "tr_TR.UTF-8"), ("LC_ALL", "tr_TR.UTF-8"), ("TZ", "Asia/Tokyo")],
        &[("LC_ALL", "C"), ("TZ", "America/St_Johns")],
        &[("TZ", "Pacific/Kiritimati"), ("COLUMNS", "20"), ("TERM", "xterm-256color"), ("CLICOLOR_FORCE", "1")],
        &[("NO_COLOR", "1"), ("TERM", "dumb"), ("RUST_LOG", "trace"), ("PATCHBAY_LOG", "trace")],
    ];
    for (n, variables) in surroundings.iter().enumerate() {
        let mut command = patchbay.command(&[&options(&[])[..], &["--workspace", workspace], LINES].concat());
        command.envs(variables.iter().copied());
        if n % 2 == 1 {
            command.current_dir(&elsewhere);
        }
        assert_eq!(outcomes(&ran(command.output().unwrap()).out), expected, "{variables:?}");
    }
}

#[test]
fn resumed_session_returns_identical_bytes() {
    let patchbay = Patchbay::new();
    let expected = outcomes(&patchbay.run(&options(LINES)).out);
    let session = patchbay.last_session();
    patchbay.skill("comes", "summary: Later", "");
    for _ in 0..3 {
        let again = patchbay.run(&[&options(&[])[..], &["--session", &session], LINES].concat());
        assert_eq!(outcomes(&again.out), expected);
    }
}

#[test]
fn output_does_not_depend_on_file_creation_order() {
    let names = ["m", "a", "z", "k", "b"];
    let digest = |names: &mut dyn Iterator<Item = &&str>| {
        let patchbay = Patchbay::new();
        for name in names {
            patchbay.skill(name, &format!("summary: Skill {name}\ncommand: go"), "Go.");
        }
        let answer = patchbay.answers(&["/skills"]).remove(0);
        (answer.message().to_owned(), answer.data()["digest"].clone())
    };
    assert_eq!(digest(&mut names.iter()), digest(&mut names.iter().rev()));
}

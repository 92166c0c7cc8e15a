//! The journal: one row per tool call with caller, tool, resource usage and outcome. Inputs and results are recorded only if the
//! operator enables it.

use patchbay_core::Digest;
use patchbay_tests::{
    answers::json_lines,
    binary::{Patchbay, Ran, run_out_of_time},
    calls::relaying,
    guest::Guest,
};
use serde_json::Value;

fn journal(patchbay: &Patchbay, arguments: &[&str]) -> Ran {
    patchbay.run(&[&["journal"], arguments].concat())
}

/// Returns the rows of `journal --json`.
pub(crate) fn journal_rows(patchbay: &Patchbay, arguments: &[&str]) -> Vec<Value> {
    let ran = journal(patchbay, &[arguments, &["--json"]].concat());
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    json_lines(&ran.out)
}

#[test]
fn empty_journal_is_reported() {
    let patchbay = Patchbay::new();
    let said = |arguments: &[&str]| {
        let Ran { code, out, err } = journal(&patchbay, arguments);
        assert_eq!((code, &*err), (Some(0), ""), "{arguments:?}");
        out
    };
    assert_eq!(said(&[]), "The journal is empty.\n");
    assert_eq!(said(&["--plugin", "calc"]), "No calls match.\n");
    assert_eq!(said(&["--json"]), "");
    // Lines without a tool call are not recorded.
    patchbay.exec(&["/skills", "hello", "/skill unknown", "/no-such-command"]);
    assert_eq!(said(&[]), "The journal is empty.\n");
}

#[test]
fn usage_errors_are_rejected() {
    let patchbay = Patchbay::new();
    for arguments in [&["--limit", "0"][..], &["--limit", "x"], &["--plugin", "No Name"], &["calc"]] {
        assert_eq!(journal(&patchbay, arguments).code, Some(2), "{arguments:?}");
    }
    for (id, words) in [
        ("zzz", "Error: no session in the journal or among stored sessions has the id 'zzz'. [session_not_found]\n"),
        ("", "Error: expected a session id or the beginning of one. [invalid_args]\n"),
    ] {
        let ran = journal(&patchbay, &["--session", id]);
        assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "", words));
    }
}

#[test]
fn journal_records_metadata_not_content() {
    let patchbay = Patchbay::new();
    let mut live = patchbay.live(&[]);
    assert_eq!(live.message("/calc 123454321 + 1"), "123454322");
    assert_eq!(live.message("/calc 123454321 + 1"), "123454322");
    let help = live.answer("/help calc");
    let found = journal_rows(&patchbay, &[]);
    assert_eq!(found.len(), 2);
    let row = &found[0];
    let input = r#"{"expression":"123454321 + 1"}"#;
    for (key, value) in [
        ("asker", "person".into()),
        ("parent", Value::Null),
        ("session", live.session().into()),
        ("workspace", patchbay.workspace().canonicalize().unwrap().to_str().unwrap().into()),
        ("root", "bundled".into()),
        ("skill", "calc".into()),
        ("tool", "eval".into()),
        ("component", help.data()["component"].clone()),
        ("input_hash", Digest::of(input.as_bytes()).to_string().into()),
        ("grants", Value::Array(Vec::new())),
        ("outcome", "ok".into()),
    ] {
        assert_eq!(row[key], value, "{key}");
    }
    for (key, least) in
        [("fuel", 1), ("time_us", 1), ("peak_memory", 65536), ("output_bytes", "123454322".len() as u64)]
    {
        assert!(row[key].as_u64().unwrap() >= least, "{key}: {}", row[key]);
    }
    assert_eq!(row["fuel"], found[1]["fuel"], "the same call does the same work");
    assert_ne!(row["call"], found[1]["call"]);
    assert!(row["at"].as_str().unwrap() <= found[1]["at"].as_str().unwrap());
    assert!(!row.as_object().unwrap().keys().any(|key| key == "input" || key == "output"));
    // The table itself does not contain them either.
    let columns = "at || hex(call) || asker || ifnull(grants, '') || outcome || ifnull(input, '') || ifnull(output, '') || hex(input_hash)";
    let kept: String = patchbay
        .database("patchbay.db")
        .query_row(&format!("SELECT {columns} FROM calls JOIN call_sites ON call_sites.id = site"), [], |row| {
            row.get(0)
        })
        .unwrap();
    assert!(!kept.contains("12345432"), "{kept}");
}

#[test]
fn journal_contents_are_opt_in_and_removed_with_the_session() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[journal]\ncontent = true\n");
    patchbay.exec(&["/calc 6 * 7", "/calc 1 +"]);
    let session = patchbay.last_session();
    let found = journal_rows(&patchbay, &[]);
    assert_eq!((&found[0]["input"], &found[0]["output"]), (&r#"{"expression":"6 * 7"}"#.into(), &"42".into()));
    assert_eq!(found[1]["outcome"], "tool_failed");
    assert_eq!(found[1]["input"], r#"{"expression":"1 +"}"#);
    assert!(!found[1]["output"].as_str().unwrap().is_empty());
    // The table does not show it.
    assert!(!journal(&patchbay, &[]).out.contains("6 * 7"));

    assert_eq!(patchbay.run(&["sessions", "rm", &session]).code, Some(0));
    let left = journal_rows(&patchbay, &["--session", &session[..13]]);
    assert_eq!(left.len(), 2, "that there were calls stays known");
    assert!(left.iter().all(|row| row.get("input").is_none() && row.get("output").is_none()), "{left:?}");
}

#[test]
fn every_call_outcome_has_a_code() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[limits]\nfuel = 50000000\n");
    patchbay.add_command("spin", &Guest::spinning(), "");
    patchbay.add_command("trap", &Guest::trapping(), "");
    patchbay.add_command("ask", &relaying("calc__eval", "{}"), "capabilities: [{name: tools}]\n");
    patchbay.add_command("wrong", &relaying("calc__eval", "{}"), "capabilities: [{name: tools}]\n");
    patchbay.run(&["grant", "add", "wrong", "tools"]);
    let answers = patchbay.answers(&["/calc 1", "/calc 1 +", "/spin", "/trap", "/ask", "/wrong"]);
    let found = journal_rows(&patchbay, &[]);
    let by_people: Vec<_> = found.iter().filter(|row| row["asker"] == "person").collect();
    assert_eq!(by_people.len(), answers.len());
    for (answer, row) in answers.iter().zip(by_people) {
        let outcome = if answer.code() == "tool_result" { "ok" } else { answer.code() };
        assert_eq!(row["outcome"], outcome, "{}", answer.outcome);
    }
    let outcomes: Vec<_> = found.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["ok", "tool_failed", "limit_fuel", "trap", "denied", "invalid_input", "tool_failed"]);
    assert!(found[2]["fuel"].as_u64().unwrap() >= 50_000_000, "{}", found[2]["fuel"]);
    assert_eq!((&found[5]["skill"], &found[5]["fuel"]), (&"calc".into(), &0.into()), "it never ran");
}

#[test]
fn nested_call_records_its_caller_and_grants() {
    let patchbay = Patchbay::new();
    patchbay.add_command(
        "ask",
        &relaying("calc__eval", r#"{"expression":"6 * 7"}"#),
        "capabilities: [{name: tools}]\n",
    );
    patchbay.run(&["grant", "add", "ask", "tools"]);
    assert_eq!(patchbay.line("/ask"), "42");
    let found = journal_rows(&patchbay, &[]);
    let [inner, outer] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&inner["skill"], &inner["asker"]), (&"calc".into(), &"tool:ask__run".into()));
    assert_eq!((&outer["skill"], &outer["asker"]), (&"ask".into(), &"person".into()));
    assert_eq!((&inner["parent"], &outer["parent"]), (&outer["call"], &Value::Null));
    assert_eq!((&inner["grants"], &outer["grants"]), (&serde_json::json!([]), &serde_json::json!(["tools"])));
    assert_eq!(outer["host_calls"], 1);
    assert!(outer["fuel"].as_u64() > inner["fuel"].as_u64(), "the caller's fuel includes that of the tool it called");
}

#[test]
fn cancelled_call_is_recorded() {
    let home = || {
        let patchbay = Patchbay::new();
        patchbay.write("home/config/config.toml", "[limits]\nfuel = 1000000000000000\ntime_ms = 600000\n");
        patchbay.add_command("spin", &Guest::spinning(), "");
        patchbay
    };
    let begun = |patchbay: &Patchbay, _: &Ran| !journal_rows(patchbay, &[]).is_empty();
    let (patchbay, stopped, _) = run_out_of_time(home, &["/spin"], begun);
    assert_eq!(stopped.code, Some(3), "{stopped:?}");
    let found = journal_rows(&patchbay, &[]);
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0]["skill"], &found[0]["outcome"]), (&"spin".into(), &"cancelled".into()));
}

#[test]
fn journal_filters_by_plugin_session_and_limit() {
    let patchbay = Patchbay::new();
    patchbay.exec(&["/calc 1", "/calc 2", "/json . {}"]);
    let one = patchbay.last_session();
    patchbay.exec(&["/calc 3"]);
    let two = journal_rows(&patchbay, &[])[3]["session"].as_str().unwrap().to_owned();
    assert_ne!(one, two);
    let of = |arguments: &[&str]| {
        let rows = journal_rows(&patchbay, arguments);
        rows.iter().map(|row| row["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of(&[]), [1, 2, 3, 4]);
    assert_eq!(of(&["--plugin", "calc"]), [1, 2, 4]);
    assert_eq!(of(&["--plugin", "json"]), [3]);
    assert_eq!(of(&["--plugin", "notes"]), [0; 0]);
    assert_eq!(of(&["--session", &two]), [4]);
    assert_eq!(of(&["--session", &one[..13]]), [1, 2, 3]);
    assert_eq!(of(&["--session", &one, "--plugin", "calc"]), [1, 2]);
    assert_eq!(of(&["--limit", "2"]), [3, 4]);
    assert_eq!(of(&["--limit", "2", "--plugin", "calc"]), [2, 4]);
    assert_eq!(of(&["--limit", "4000000000"]), [1, 2, 3, 4]);
    let table = journal(&patchbay, &["--limit", "2"]);
    assert_eq!(table.out.lines().count(), 3);
    assert_eq!(table.err, "Note: older calls are left out; use --limit N to show the newest N.\n");
    assert_eq!(journal(&patchbay, &["--limit", "4"]).err, "");
}

#[test]
fn table_has_one_line_per_call() {
    let patchbay = Patchbay::new();
    patchbay.exec(&["/calc 1", "/note add x"]);
    let session = patchbay.last_session();
    let update = "UPDATE calls SET at = 1795291440007, fuel = 1234, time_us = 5678, peak_memory = 1025, host_calls = 3, \
                  output_bytes = 40 + id";
    patchbay.database("patchbay.db").execute_batch(update).unwrap();
    let short = &session[..8];
    assert_eq!(
        journal(&patchbay, &[]).out,
        format!(
            "CALL  TIME (UTC)                SESSION   ASKED BY  TOOL        OUTCOME     MS  FUEL  KIB  HOST CALLS  BYTES OUT  GRANTS\n\
             1     2026-11-21T20:04:00.007Z  {short}  person    calc__eval  ok       5.678  1234    2           3         41  -\n\
             2     2026-11-21T20:04:00.007Z  {short}  person    notes__run  ok       5.678  1234    2           3         42  kv\n"
        )
    );
}

/// The database may contain any text, so the output escapes it for the terminal.
#[test]
fn journal_rows_are_escaped_for_the_terminal() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[journal]\ncontent = true\n");
    patchbay.exec(&["/calc 1"]);
    patchbay
        .database("patchbay.db")
        .execute_batch(
            "UPDATE call_sites SET skill = 'a' || char(27) || '[31m' || char(10) || 'b', tool = char(8238) || 'c', \
             asker = 'tool:' || char(7) || 'd'; \
             UPDATE calls SET grants = '[\"\\u001be\"]', output = char(155) || 'f' || char(10) || 'g'",
        )
        .unwrap();
    let table = journal(&patchbay, &[]).out;
    assert!(table.contains("a[31m b__c") && table.contains("tool:d") && table.lines().count() == 2, "{table:?}");
    assert!(!table.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{table:?}");
    let row = &journal_rows(&patchbay, &[])[0];
    assert_eq!((&row["skill"], &row["tool"]), (&"a[31m b".into(), &"c".into()));
    assert_eq!((&row["output"], &row["grants"][0]), (&"f\ng".into(), &"e".into()));
}

#[test]
fn unreadable_journal_row_is_reported() {
    let patchbay = Patchbay::new();
    patchbay.exec(&["/calc 1"]);
    patchbay.database("patchbay.db").execute_batch("UPDATE calls SET outcome = 'well'").unwrap();
    let ran = journal(&patchbay, &[]);
    let words = "Error: the database contains an unreadable row of the journal. [store_failed]\n";
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "", words));
}

#[test]
fn oldest_journal_rows_are_pruned() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[journal]\nkeep = 10\n");
    let lines: Vec<String> = (0..200).map(|n| format!("/calc {n}")).collect();
    let ran = patchbay.exec(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.out.lines().count(), 200);
    let ids: Vec<_> = journal_rows(&patchbay, &[]).iter().map(|row| row["id"].as_u64().unwrap()).collect();
    assert!((10..10 + 64).contains(&ids.len()), "{}", ids.len());
    assert_eq!(ids.last(), Some(&200), "the newest stay");
}

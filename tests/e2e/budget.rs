//! `[budget]`: what models may cost, in the real binary with a priced provider on the loopback address. Each of the server's
//! responses reports 24 input tokens, which are free here, and 15 output tokens, which cost a cent each. A request may produce up
//! to 100 output tokens, which is a dollar.

use std::{sync::mpsc, thread, time::Duration};

use patchbay_provider::Settings;
use patchbay_store::BudgetSettings;
use patchbay_tests::{
    answers::{Answer, json_lines},
    binary::Patchbay,
    format::CHAT,
    host::{HostLimits, host_of},
    play::Play,
    server::{Server, Step},
    terminal::Terminal,
};
use serde_json::{Value, json};

/// A model of the server with its price.
const PRICED: &str =
    "models = [{ id = \"local-1\", max_output_tokens = 100, price = { input = \"0\", output = \"10000\" } }]\n";
/// A price for the provider `demo`, where each word is a token.
const PRICED_DEMO: &str = "options = { delay-ms = \"0\" }\n\
    models = [{ id = \"demo-1\", max_output_tokens = 100, price = { input = \"0\", output = \"10000\" } }]\n";

/// A home that uses the priced model of `server`.
fn home(server: &Server, budget: &str) -> Patchbay {
    let model = format!("{PRICED}[budget]\n{budget}\n");
    let patchbay = CHAT.plain_home(server, &model);
    let config = std::fs::read_to_string(patchbay.home().join("config/config.toml")).unwrap();
    patchbay.write("home/config/config.toml", format!("default_model = \"{}\"\n{config}", CHAT.model));
    patchbay
}

fn codes(answers: &[Answer]) -> Vec<&str> {
    answers.iter().map(Answer::code).collect()
}

fn ledger(patchbay: &Patchbay, options: &[&str]) -> Vec<Value> {
    let ran = patchbay.run(&[&["usage", "--json"], options].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // The home of the tests already has sessions with `demo`, which cost nothing.
    let cost = |row: &Value| row["spent"] != "0.00" || row["reserved"] != "0.00";
    json_lines(&ran.out).into_iter().filter(cost).collect()
}

/// Returns the cents spent and reserved in the whole home.
fn cents(patchbay: &Patchbay) -> i64 {
    let sum = "SELECT (SELECT total(amount) FROM spending) + (SELECT total(amount) FROM reservations)";
    (patchbay.query_one::<f64>(sum, ()) / 1e7) as i64
}

#[test]
fn session_ends_at_its_budget_and_lists_what_was_spent() {
    let server = Server::always(CHAT.answer("text"));
    let patchbay = home(&server, "session = \"1.20\"");
    let answers = patchbay.answers(&["one", "two", "three", "/usage"]);
    // A request needs a dollar, and 0.90 are left after two.
    assert_eq!(codes(&answers), ["answered", "answered", "limit_budget", "usage_listed"]);
    let over = "the request could cost 1.00 USD, but only 0.90 USD is left of 1.20 USD (session in [budget] of \
        config.toml): 0.30 USD \
                spent, 0.00 USD reserved for requests under way. Nothing was sent. Start a new session, choose a cheaper model \
                with /model, or raise the limit and resume this session with --session.";
    assert_eq!((answers[2].message(), server.requests().len()), (&*format!("Error: {over}"), 2));
    let usage = answers[3].message();
    assert!(usage.contains("\nThis session: 0.30 USD spent, of 1.20 USD\n  "), "{usage}");
    assert!(usage.ends_with(", turn, openai-compatible/local-1: 2 requests, 0.30 USD spent"), "{usage}");
    assert_eq!(
        answers[3].data()["spending"]["session"],
        json!({"spent": "0.30", "reserved": "0.00", "budget": "1.20"})
    );
    // The budget belongs to the session: a resumed session has still used it up, while a new one has its own.
    let session = patchbay.last_session();
    assert_eq!(codes(&patchbay.answers_in(&["--session", &session], &["four"])), ["limit_budget"]);
    let ran = patchbay.run(&["exec", "--session", &session, "five"]);
    assert_eq!((ran.code, ran.errors().contains(&format!("Error: {over}"))), (Some(1), true), "{ran:?}");
    assert_eq!(codes(&patchbay.answers(&["one"])), ["answered"]);
}

#[test]
fn day_has_one_budget_for_all_sessions() {
    let server = Server::always(CHAT.answer("text"));
    let patchbay = home(&server, "day = \"1.20\"");
    for expected in ["answered", "answered", "limit_budget"] {
        assert_eq!(codes(&patchbay.answers(&["one"])), [expected]);
    }
    let answers = patchbay.answers(&["one", "/usage"]);
    let (over, usage) = (answers[0].message(), answers[1].message());
    assert!(over.contains("0.90 USD is left of 1.20 USD (day in [budget] of config.toml): 0.30 USD spent"), "{over}");
    let rows = ledger(&patchbay, &[]);
    let day = rows[0]["day"].as_str().unwrap();
    assert!(over.contains(&format!("The day {day} ends at 24:00 UTC. Wait until then")), "{over}");
    assert!(usage.ends_with(&format!("All sessions on {day} (UTC): 0.30 USD spent, of 1.20 USD")), "{usage}");
    let of_row = |row: &Value| (row["spent"].clone(), row["requests"].clone(), row["tool"].clone());
    assert_eq!(rows.iter().map(of_row).collect::<Vec<_>>(), vec![(json!("0.15"), json!(1), json!("turn")); 2]);
    assert_eq!((ledger(&patchbay, &["--day", day]), ledger(&patchbay, &["--day", "2001-01-01"])), (rows, vec![]));
    let shown = patchbay.run(&["usage"]).out;
    assert!(shown.contains(", turn, openai-compatible/local-1: 1 request, 0.15 USD spent\n"), "{shown}");
    assert!(shown.ends_with(" requests, 0.30 USD spent\n"), "{shown}");
    let wrong = patchbay.run(&["usage", "--day", "yesterday"]);
    assert!(wrong.code == Some(2) && wrong.errors().contains("'yesterday' is not a day: write it as in 2026-11-27"));
    // Costs are kept when their session is removed.
    let session = rows_session(&patchbay);
    assert_eq!(patchbay.run(&["sessions", "rm", &session]).code, Some(0));
    assert_eq!(codes(&patchbay.answers(&["one"])), ["limit_budget"]);
}

fn rows_session(patchbay: &Patchbay) -> String {
    ledger(patchbay, &[])[0]["session"].as_str().unwrap().to_owned()
}

#[test]
fn request_of_a_killed_process_counts_whole() {
    let (arrived, arrivals) = mpsc::channel();
    let server = Server::scripted(move |_| {
        let _ = arrived.send(());
        vec![Step::Pause(300_000)]
    });
    let patchbay = home(&server, "session = \"1.50\"\nday = \"20.00\"");
    let mut live = patchbay.live(&[]);
    let session = live.session().to_owned();
    live.start("one");
    arrivals.recv_timeout(Duration::from_secs(60)).unwrap();
    live.kill();
    let row = &ledger(&patchbay, &[])[0];
    assert_eq!((&row["reserved"], &row["spent"], &row["session"]), (&json!("1.00"), &json!("0.00"), &json!(session)));
    let answers = patchbay.answers_in(&["--session", &session], &["/usage", "two"]);
    let usage = answers[0].message();
    assert!(usage.contains("This session: 1.00 USD spent, of 1.50 USD"), "{usage}");
    assert!(usage.contains("of which 1.00 USD is assumed: the usage was not reported"), "{usage}");
    assert_eq!(answers[1].code(), "limit_budget");
}

#[test]
fn failed_requests_cost_nothing_unless_an_answer_began() {
    let server = Server::scripted(|request| match request.contains("refuse") {
        true => vec![Step::Bytes(CHAT.refusal(400, "no", None))],
        false => vec![Step::Bytes(CHAT.answer("error"))],
    });
    let patchbay = home(&server, "session = \"1.50\"");
    let answers = patchbay.answers(&["refuse", "refuse", "/drop", "/usage"]);
    assert_eq!(answers[1].code(), "provider_invalid_request");
    assert!(answers[3].message().contains("This session: 0.00 USD spent, of 1.50 USD"), "{}", answers[3].message());
}

#[test]
fn price_is_needed_only_for_a_budget() {
    let server = Server::always(CHAT.answer("text"));
    for (budget, host, expected) in [
        ("", "127.0.0.1", "answered"),
        // A server on this machine is free.
        ("[budget]\nsession = \"0\"\n", "127.0.0.1", "answered"),
    ] {
        let patchbay = CHAT.plain_home(&server, budget);
        let answers = patchbay.answers(&[&format!("/model {}", CHAT.model), "one", "/usage"]);
        assert_eq!(answers[1].code(), expected, "{host}: {}", answers[1].message());
        assert_eq!(answers[2].message().contains("This session:"), !budget.is_empty());
    }
    // Nothing is sent to a remote provider whose price is unknown.
    let mut patchbay = Patchbay::new();
    patchbay.set("LOCAL_API_KEY", "key-of-the-test");
    let table = "[providers.far]\nadapter = \"openai-compatible\"\norigin = \"https://models.invalid/v1\"\nenv = \"LOCAL_API_KEY\"\n";
    patchbay.write("home/config/config.toml", format!("{table}[budget]\nday = \"5\"\n"));
    let answers = patchbay.answers(&["/model far:big", "one"]);
    assert_eq!(answers[1].code(), "price_unknown");
    let words = "Error: far/big cannot be used with [budget] of config.toml: its price is not known. Nothing was \
        sent. Set its price for a million tokens, such as models = [{ id = \"big\", price = { input = \"2.50\", output = \"10\" } }] in [providers.far]";
    assert!(answers[1].message().starts_with(words), "{}", answers[1].message());
}

#[test]
fn wrong_budget_is_refused_with_its_value_and_place() {
    let patchbay = Patchbay::new();
    for (budget, words) in [
        ("session = \"2,00\"", "line 2, column 11: '2,00' is not an amount in US dollars"),
        ("day = \"-1\"", "line 2, column 7: '-1' is not an amount in US dollars"),
        ("day = \"0.0000001\"", "line 2, column 7: '0.0000001' is not an amount in US dollars: write up to 9 digits"),
        (
            "day = 2.5",
            "line 2, column 7: invalid type: floating point `2.5`, expected an amount in US dollars in quotes",
        ),
        ("month = \"2\"", "line 2, column 1: unknown field `month`, expected `session` or `day`"),
    ] {
        patchbay.write("home/config/config.toml", format!("[budget]\n{budget}\n"));
        let ran = patchbay.run(&["usage"]);
        assert!(ran.code == Some(1) && ran.errors().contains(words), "{ran:?}");
    }
}

#[cfg(unix)]
#[test]
fn terminal_shows_what_is_left() {
    let server = Server::always(CHAT.answer("text"));
    let patchbay = home(&server, "session = \"0.99\"");
    let terminal = Terminal::sized(&patchbay, 120, 30, &[]);
    terminal.wait_for_prompt();
    terminal.press("hello\r");
    terminal.wait_for_containing("the request could cost 1.00 USD, but only 0.99 USD is left of 0.99 USD");
    assert!(server.requests().is_empty());
}

/// Two processes with ten agents each, which all send requests repeatedly.
#[test]
fn agents_of_two_processes_never_exceed_the_day() {
    let patchbay = Patchbay::new();
    let config = format!("[providers.demo]\n{PRICED_DEMO}[budget]\nsession = \"7.00\"\nday = \"9.00\"\n");
    patchbay.write("home/config/config.toml", config);
    // The first start creates the database.
    assert_eq!(patchbay.run(&["usage"]).code, Some(0));
    let child = "call fork {\"prompt\": \"pause 100\\nsay Done.\"}\n";
    let prompt = child.repeat(10);
    let run = || patchbay.run(&["exec", "--json", "--keep-going", &prompt, &prompt]);
    thread::scope(|threads| {
        let running: Vec<_> = (0..2).map(|_| threads.spawn(run)).collect();
        while running.iter().any(|process| !process.is_finished()) {
            assert!(cents(&patchbay) <= 900, "{}", cents(&patchbay));
            thread::sleep(Duration::from_millis(10));
        }
        let outs: Vec<_> = running.into_iter().map(|process| process.join().unwrap().out).collect();
        let turns = |code: &str| -> usize {
            let ended =
                |out: &String| json_lines(out).iter().filter(|it| it["event"] == "turn" && it["code"] == code).count();
            outs.iter().map(ended).sum()
        };
        let (answered, refused) = (turns("answered"), turns("limit_budget"));
        assert!(answered >= 2 && refused >= 1, "{answered} {refused}");
    });
    let rows = ledger(&patchbay, &[]);
    assert!(rows.iter().all(|row| row["reserved"] == "0.00" && row["assumed"] == "0.00"), "{rows:?}");
    assert!((1..=900).contains(&cents(&patchbay)), "{}", cents(&patchbay));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_agent_is_woken_when_the_money_is_used_up() {
    let mut settings = Settings::default();
    settings.providers.insert("demo".parse().unwrap(), toml::from_str(PRICED_DEMO).unwrap());
    let patchbay = Patchbay::new();
    let budget = BudgetSettings { session: Some("1.01".parse().unwrap()), day: None };
    let host = host_of(&patchbay, settings.clone(), HostLimits::default(), budget);
    let play = Play::on(host, patchbay, settings, HostLimits::default()).await;
    let root = play.session.view();
    play.finish("hello").await;
    let child = play.fork("").await;
    assert_eq!(play.finish("hello").await.code.as_str(), "limit_budget");
    play.finish(&format!("/mail-send {root} \"Wake up\"")).await;
    assert_eq!(play.said(root), ["hello"]);
    assert_eq!((play.agent(root).await.unread, play.turns(child).len()), (1, 1));
    play.check();
}

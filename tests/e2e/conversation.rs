//! Conversations with the provider `demo`, which needs no network.

use patchbay_tests::binary::Patchbay;
use serde_json::{Value, json};

/// Returns the message events of a kind, with their data.
fn messages_of_kind(events: &[Value], kind: &str) -> Vec<Value> {
    events.iter().filter(|event| event["event"] == "message" && event["kind"] == kind).cloned().collect()
}

#[test]
fn answer_is_streamed_and_stored_with_usage() {
    let patchbay = Patchbay::quick();
    let answer = &patchbay.answers(&["Good day"])[0];
    assert_eq!((answer.code(), answer.message()), ("answered", "You said: Good day"));
    let said: String = answer
        .events
        .iter()
        .filter(|event| event["event"] == "delta" && event["block"] == "text")
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert_eq!(said, "You said: Good day");
    let data = &messages_of_kind(&answer.events, "assistant")[0]["data"];
    assert_eq!(
        (&data["provider"], &data["model"], &data["stop"]),
        (&json!("demo"), &json!("demo-1"), &json!("end-turn"))
    );
    assert_eq!(data["parts"], json!([{"type": "text", "text": "You said: Good day"}]));
    assert!(data["usage"]["input"].as_u64() > Some(0) && data["usage"]["output"] == 4, "{data}");
}

#[test]
fn model_tool_calls_use_the_ordinary_call_path() {
    let patchbay = Patchbay::quick();
    let lines = ["call calc__eval {\"expression\": \"6 * 7\"}\ncall no__tool {}\ncall calc__eval {\"wrong\": 1}"];
    let answer = &patchbay.answers(&lines)[0];
    assert_eq!(answer.code(), "answered");
    let message = answer.message();
    assert!(message.contains(r#"calc__eval said: {"tool_success":true,"result":"42"}"#), "{message}");
    assert!(message.contains(r#""error_code":"tool_not_found""#), "{message}");
    assert!(message.contains(r#""error_code":"invalid_input""#), "{message}");
    let tools = messages_of_kind(&answer.events, "tool");
    assert_eq!(tools.len(), 3);
    assert_eq!(tools[0]["data"]["name"], "calc__eval");
    // The journal records the caller: the model of this agent.
    let journal = patchbay.run(&["journal", "--json"]).out;
    let first: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    assert!(first["asker"].as_str().unwrap().starts_with("agent:"), "{first}");
}

#[test]
fn turn_continues_until_the_model_stops_calling_tools() {
    let call = "call calc__eval {\"expression\": \"1 + 1\"}";
    let lines = [format!("{call}\nthen {call}\nthen say Done."), "show context".to_owned()];
    let answers = Patchbay::quick().answers(&lines.each_ref().map(String::as_str));
    assert_eq!(answers[0].message(), "Done.");
    assert_eq!(messages_of_kind(&answers[0].events, "assistant").len(), 3);
}

#[test]
fn provider_error_is_reported_and_session_continues() {
    let patchbay = Patchbay::quick();
    let answers = patchbay.answers(&["fail authentication", "fail invalid-request", "say Here I am."]);
    assert_eq!((answers[0].code(), &answers[0].data()["unanswered"]), ("provider_authentication", &json!(true)));
    assert_eq!((answers[1].code(), &answers[1].data()["unanswered"]), ("provider_invalid_request", &json!(true)));
    assert_eq!((answers[2].code(), answers[2].message()), ("answered", "Here I am."));
}

#[test]
fn interrupted_answer_keeps_its_received_part() {
    let answers = Patchbay::quick().answers(&["say one two three\nfail server never after 2", "show context"]);
    assert_eq!((answers[0].code(), &answers[0].data()["unanswered"]), ("provider_server", &json!(null)));
    let row = &messages_of_kind(&answers[0].events, "assistant")[0];
    assert_eq!((&row["content"], &row["data"]["interrupted"]), (&json!("one two"), &json!(true)));
    assert_eq!(answers[1].code(), "answered");
}

#[test]
fn instructions_with_input_start_a_turn() {
    let patchbay = Patchbay::quick();
    patchbay.skill("guide", "command: guide\nsummary: Shows the way", "say The way to $INPUT.");
    let answer = &patchbay.answers(&["/guide the sea"])[0];
    assert_eq!((answer.code(), answer.message()), ("answered", "The way to the sea."));
    let kinds: Vec<_> = answer.rows().iter().map(|(kind, _)| kind.to_string()).collect();
    assert_eq!(kinds, ["skill", "assistant", "command"]);
}

#[test]
fn model_can_load_instructions() {
    let patchbay = Patchbay::quick();
    patchbay.skill("guide", "summary: Shows the way", "Go to $INPUT by foot.");
    let lines = [
        "call use_skill {\"name\": \"guide\", \"input\": \"the sea\"}",
        "call use_skill {\"name\": \"calc\", \"input\": \"\"}",
    ];
    let answers = patchbay.answers(&lines);
    assert!(answers[0].message().contains("Go to the sea by foot."), "{}", answers[0].message());
    assert!(
        answers[1].message().contains("no skill 'calc' with instructions found."),
        "a tool_dispatch skill has no instructions: {}",
        answers[1].message()
    );
    let context = &patchbay.answers(&["show context"])[0];
    assert!(
        context.message().contains("use_skill") && context.message().contains("calc__eval"),
        "{}",
        context.message()
    );
}

#[test]
fn system_prompt_contains_the_persona() {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/AGENTS.md", "Mind the workspace.");
    let answers = patchbay.answers(&["show context", "say $self, child of $parent"]);
    assert!(answers[0].message().contains("Mind the workspace."), "{answers:?}");
    // The conversation, not the system prompt, tells the agent its id, which keeps the system prompt the same for all agents.
    let agent = answers[0].events[0]["agent"].as_str().unwrap();
    assert_eq!(answers[1].message(), format!("{agent}, child of none"));
}

#[test]
fn conversation_is_compacted_by_command() {
    let patchbay = Patchbay::quick();
    let long = format!("say {}", "word ".repeat(400));
    let answers = patchbay.answers(&["/compact", &long, "/compact the words", "/compact", "show context"]);
    assert_eq!(answers[0].outcome["message"], "Error: there is nothing to compact.");
    assert_eq!((answers[2].code(), answers[3].code()), ("compacted", "compact_empty"));
    let data = &answers[2].outcome["data"];
    let [before, after] = ["before", "after"].map(|key| data[key].as_u64().unwrap());
    assert!(after < before, "{data}");
    assert!(answers[2].message().starts_with("Compacted: ") && answers[2].message().contains(" tokens became "));
    let summary = &messages_of_kind(&answers[2].events, "compaction")[0];
    assert!(summary["content"].as_str().unwrap().starts_with("Summary: 2 messages"), "{summary}");
    // The summary, followed by the new message.
    assert!(answers[4].message().contains("messages: 1\n"), "{}", answers[4].message());
}

/// Returns the values of a host option in the answers to `show context`, in order.
fn hints<'a>(shown: &'a str, name: &str) -> Vec<&'a str> {
    let options = shown.lines().filter_map(|line| line.strip_prefix("options: "));
    let prefix = format!("host:{name}=");
    options.map(|options| options.split(", ").find_map(|option| option.strip_prefix(&*prefix)).unwrap_or("")).collect()
}

#[test]
fn adapters_receive_the_hints_of_the_host() {
    let patchbay = Patchbay::quick();
    patchbay.skill("guide", "summary: Shows the way", "Go there.");
    let first = ["exec", "show context", "say One.", "show context", "/fork \"show context\""];
    let ran = patchbay.run(&first);
    assert_eq!(hints(&ran.out, "purpose"), ["turn"; 3]);
    assert_eq!(hints(&ran.out, "attempt"), ["1"; 3]);
    assert_eq!(hints(&ran.out, "bound-from"), ["0"; 3]);
    // All agents of a session share one key, which differs from any id.
    let keys = hints(&ran.out, "cache-key");
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert!(keys[0].len() == 32 && keys[0].bytes().all(|byte| byte.is_ascii_hexdigit()), "{keys:?}");
    let session = patchbay.last_session();
    assert!(!session.replace('-', "").contains(keys[0]));
    // The tools have changed since the four answers in the child's conversation.
    patchbay.skill("guide", "summary: Shows another way", "Go there.");
    let later = patchbay.run(&["exec", "--session", &session, "/reload_skills", "show context", "show context"]);
    assert_eq!(hints(&later.out, "bound-from"), ["8", "8"], "{}", later.out);
    assert_eq!(hints(&later.out, "cache-key"), [keys[0]; 2]);
    let other = patchbay.run(&["exec", "show context"]);
    assert_ne!(hints(&other.out, "cache-key"), [keys[0]]);
}

#[test]
fn summary_names_the_skills_in_use() {
    let patchbay = Patchbay::quick();
    patchbay.skill("guide", "command: guide\nsummary: Shows the way", "say Go there.");
    patchbay.skill("walk", "summary: Walks", "Go by foot.");
    patchbay.skill("unused", "summary: Does nothing", "Wait.");
    let call =
        "call use_skill {\"name\": \"walk\", \"input\": \"\"}\ncall use_skill {\"name\": \"nope\", \"input\": \"\"}";
    let answers = patchbay.answers(&["/guide there", call, "/compact", "say More.", "/compact", "show context"]);
    for summary in [&answers[2], &answers[4]] {
        let row = &messages_of_kind(&summary.events, "compaction")[0];
        assert_eq!(row["data"]["skills"], json!(["guide", "walk"]), "{row}");
    }
    // The agent's introduction, the summary, the skills, and the message.
    let parts = answers[5].message().lines().find(|line| line.starts_with("1 user: ")).unwrap();
    let skills = "Skills in use: guide, walk. use_skill returns their instructions again.".len();
    assert!(parts.contains(&format!(", text({skills}), ")), "{parts}");
}

#[test]
fn end_for_an_unknown_reason_is_said() {
    let patchbay = Patchbay::quick();
    let ran = patchbay.run(&["exec", "say Half\nstop other"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), "Half\n"));
    assert_eq!(ran.errors(), "The provider ended the answer for another reason: other.\n");
}

#[test]
fn usage_is_listed_by_model() {
    let patchbay = Patchbay::quick();
    let answers = patchbay.answers(&["/usage", "say one two", "/model demo-big", "say three", "/usage"]);
    assert_eq!(answers[0].message(), "Total: 0 tokens");
    let lines: Vec<&str> = answers[4].message().lines().collect();
    assert!(
        lines[0].starts_with("demo/demo-1: ") && lines[0].contains(" in, 2 out, 0 read from the cache"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("demo/demo-big: ") && lines[1].contains(" in, 1 out, "), "{lines:?}");
    assert!(lines[2].starts_with("All models: ") && lines[2].contains(" in, 3 out, "), "{lines:?}");
    assert!(lines[3].starts_with("Total: ") && lines.len() == 4, "{lines:?}");
}

#[test]
fn long_conversation_is_summarised_by_its_model() {
    let patchbay = Patchbay::quick();
    // demo-small reads 4,000 tokens.
    let long = format!("say {}", "word ".repeat(900));
    let lines = ["/model demo-small", "remember the sea", &long, &long, &long, &long, "say Still here."];
    let answers = patchbay.answers(&lines);
    assert!(answers.iter().all(|answer| answer.outcome["status"] == "ok"), "{answers:?}");
    let summaries: Vec<_> = answers.iter().flat_map(|answer| messages_of_kind(&answer.events, "compaction")).collect();
    assert!(!summaries.is_empty());
    assert!(summaries[0]["content"].as_str().unwrap().starts_with("Summary: "), "{}", summaries[0]);
    // The full conversation is still stored.
    let session = patchbay.last_session();
    assert!(patchbay.run(&["exec", "--session", &session, "--json", "say ."]).code == Some(0));
}

#[test]
fn session_has_a_token_limit() {
    let patchbay = Patchbay::new();
    let config = "[limits]\nsession_tokens = 40\n[providers.demo]\noptions = { delay-ms = \"0\" }\n";
    patchbay.write("home/config/config.toml", config);
    let answers = patchbay.answers(&["one two three", "four"]);
    assert_eq!(answers[0].code(), "answered");
    assert_eq!(answers[1].code(), "limit_tokens");
    assert!(answers[1].message().contains("the limit is 40 (limits.session_tokens)"), "{}", answers[1].message());
}

#[test]
fn context_shows_what_fills_the_window() {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/AGENTS.md", "Rules. ".repeat(300));
    let lines =
        ["/context", &"a word ".repeat(500), "call calc__eval {\"expression\": \"1+1\"}", "/context", "/context now"];
    let answers = patchbay.answers(&lines);
    let (empty, full) = (&answers[0], &answers[3]);
    assert_eq!((empty.code(), full.code()), ("context_listed", "context_listed"));
    let part = |answer: &patchbay_tests::answers::Answer, name: &str| answer.data()[name].as_u64().unwrap();
    // The project instructions have 2,100 bytes, which is estimated as three bytes per token.
    assert!((700..900).contains(&part(empty, "persona")), "{}", empty.data());
    for name in ["answers", "calls", "results", "files"] {
        assert_eq!(part(empty, name), 0, "{name}");
    }
    for name in ["persona", "skills", "tools", "tool_count", "window"] {
        assert_eq!(part(full, name), part(empty, name), "{name}");
    }
    // A message of 3,500 bytes, and its echo.
    assert!(part(full, "messages") > part(empty, "messages") + 1_100, "{}", full.data());
    assert!(part(full, "answers") > 1_100 && part(full, "calls") > 0 && part(full, "results") > 0, "{}", full.data());
    assert!(part(full, "facts") > 20 && part(full, "facts") == part(empty, "facts"), "{}", full.data());
    let names = [
        "persona",
        "skills",
        "facts",
        "outer_instructions",
        "tools",
        "messages",
        "answers",
        "calls",
        "results",
        "files",
    ];
    assert_eq!(part(full, "sum"), names.iter().map(|name| part(full, name)).sum::<u64>());
    let message = full.message();
    assert!(message.starts_with("About ") && message.contains(" of 32,000 tokens are in use ("), "{message}");
    assert!(
        message.contains("  persona and project instructions\n")
            && message.contains("  date, system, workspace and repository\n")
            && message.ends_with("  free"),
        "{message}"
    );
    // The command is not sent and does not become part of the conversation.
    assert_eq!(answers[4].message(), "Error: /context does not accept arguments.");
}

//! Model selection: the texts of `/model`, `/providers`, completion and missing keys.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use patchbay_provider::Settings;
use patchbay_tests::{
    binary::{Patchbay, ran},
    host::host,
};
use serde_json::{Value, json};

/// Prepares a run without the keys of any provider.
fn keyless(patchbay: &Patchbay, arguments: &[&str]) -> std::process::Command {
    let mut command = patchbay.command(arguments);
    for key in
        ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "XAI_API_KEY", "MODEL_API_KEY"]
    {
        command.env_remove(key);
    }
    command
}

#[test]
fn model_selection_prints_the_documented_texts() {
    let warned = "  ⚠ This model does not support disabling thinking\n";
    let ends = |on: &str, successor: &str| format!("\n  ⚠ This model ends on {on}. Its successor is {successor}");
    let sonnet = format!("Anthropic claude-sonnet-4-5{}", ends("2026-11-30", "claude-sonnet-5-5"));
    let pro = format!("Google gemini-2.5-pro{}", ends("2026-12-01", "gemini-3.8-flash"));
    let flash = format!("Google gemini-2.5-flash{}", ends("2026-12-01", "gemini-3.5-flash-lite"));
    let o3 = format!("OpenAI o3 (Responses API){}", ends("2026-12-11", "gpt-6.1-sol"));
    let gpt = format!("OpenAI gpt-4o (Responses API){}", ends("2027-01-14", "gpt-6-luna"));
    let ended = |on: &str, next: &str| format!("  ⚠ This model was shut down on {on}. Its successor is {next}\n");
    let (o3_mini, o1) = (ended("2026-10-23", "gpt-6-luna"), ended("2026-10-23", "gpt-6.1-sol"));
    let llama = ended("2026-07-06", "muse-spark-1.3");
    let unlisted = "  ⚠ Google does not list a model 'gemini-3-pro'. Check its name; to look for newer models: \
        /providers refresh\n";
    let table: &[(&str, String)] = &[
        ("claude-sonnet-4-5/none", format!("{sonnet}\n  Thinking: off")),
        ("claude-sonnet-4-5/low", format!("{sonnet}\n  Thinking: low (22,016 tokens)")),
        ("claude-sonnet-4-5/med", format!("{sonnet}\n  Thinking: medium (43,008 tokens)")),
        ("claude-sonnet-4-5/high", format!("{sonnet}\n  Thinking: high (59,904 tokens)")),
        ("claude-sonnet-4-5", format!("{sonnet}\n  Thinking: provider default")),
        ("claude-haiku-4-5/med", "Anthropic claude-haiku-4-5\n  Thinking: medium (21,674 tokens)".into()),
        (
            "gemini-2.5-pro/none",
            format!(
                "{pro}
{warned}  Thinking: none (128 tokens, minimum)"
            ),
        ),
        ("gemini-2.5-pro/med", format!("{pro}\n  Thinking: medium (21,888 tokens)")),
        ("gemini-2.5-pro", format!("{pro}\n  Thinking: provider default")),
        ("gemini-2.5-flash/none", format!("{flash}\n  Thinking: off")),
        ("gemini-3-pro/none", format!("Google gemini-3-pro\n{unlisted}{warned}  Thinking: LOW level (minimum)")),
        ("gemini-3-pro/med", format!("Google gemini-3-pro\n{unlisted}  Thinking: HIGH level")),
        (
            "o3/none",
            format!(
                "{o3}
{warned}  Thinking: medium effort (default)"
            ),
        ),
        ("o3/med", format!("{o3}\n  Thinking: medium effort")),
        ("gpt-4o/none", format!("{gpt}\n  Thinking: off")),
        ("gpt-4o/med", format!("{gpt}\n  ⚠ This model does not support thinking\n  Thinking: off")),
        ("gpt-4o", format!("{gpt}\n  Thinking: off")),
        ("claude-sonnet-5-5/none", "Anthropic claude-sonnet-5-5\n  Thinking: off".into()),
        ("claude-opus-5-5/none", format!("Anthropic claude-opus-5-5\n{warned}  Thinking: low effort (minimum)")),
        ("gpt-6-luna/none", "OpenAI gpt-6-luna (Responses API)\n  Thinking: off".into()),
        ("gemini-4-argon/med", "Google gemini-4-argon\n  Thinking: MEDIUM level".into()),
        ("muse-spark-1.3/high", "Meta muse-spark-1.3 (Responses API)\n  Thinking: high effort".into()),
        ("o3-mini/high", format!("OpenAI o3-mini (Responses API)\n{o3_mini}  Thinking: high effort")),
        ("o1", format!("OpenAI o1 (Responses API)\n{o1}  Thinking: provider default")),
        ("llama-4", format!("Meta llama-4 (Responses API)\n{llama}  Thinking: off")),
        ("llama-3.3-70b", format!("Meta llama-3.3-70b (Responses API)\n{llama}  Thinking: off")),
        ("demo-1", "Demo demo-1\n  Thinking: provider default".into()),
        ("demo:demo-big/high", "Demo demo-big\n  Thinking: high".into()),
    ];
    let lines: Vec<_> = table.iter().map(|(model, _)| format!("/model {model}")).collect();
    let answers = with_keys().answers(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    for ((model, expected), answer) in table.iter().zip(&answers) {
        assert_eq!((answer.code(), answer.message()), ("model_set", &*format!("✓ Switched to {expected}")), "{model}");
    }
    assert_eq!(answers[2].data(), &json!({"provider": "anthropic", "model": "claude-sonnet-4-5", "thinking": "med"}));
    let xai = &with_keys().answers(&["/model grok-4"])[0];
    assert!(xai.message().starts_with("✓ Switched to xAI grok-4 (Responses API)\n"), "{}", xai.message());
}

/// Creates a home in which each bundled provider has a key.
fn with_keys() -> Patchbay {
    let mut patchbay = Patchbay::new();
    for variable in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "XAI_API_KEY", "MODEL_API_KEY"] {
        patchbay.set(variable, "test-key");
    }
    patchbay
}

#[test]
fn switch_warns_of_a_missing_key_and_of_an_unknown_name() {
    let no_key = "  ⚠ There is no key for anthropic yet: set ANTHROPIC_API_KEY or add it to credentials.json";
    let unknown = "  ⚠ Anthropic does not list a model 'claude-sonet-5-5'. Check its name; to look for newer \
        models: /providers refresh";
    let message = |patchbay: &Patchbay, model: &str| {
        let answer = patchbay.answers(&[&format!("/model {model}")]).remove(0);
        // The model is switched anyway.
        assert_eq!((answer.code(), &answer.data()["model"]), ("model_set", &json!(model)));
        answer.message().to_owned()
    };
    let (bare, with_keys) = (Patchbay::new(), with_keys());
    let switched = "✓ Switched to Anthropic claude-sonnet-5-5\n";
    assert_eq!(message(&with_keys, "claude-sonnet-5-5"), format!("{switched}  Thinking: provider default"));
    assert_eq!(message(&bare, "claude-sonnet-5-5"), format!("{switched}{no_key}\n  Thinking: provider default"));
    let mistyped = message(&bare, "claude-sonet-5-5");
    assert!(mistyped.contains(&format!("claude-sonet-5-5\n{unknown}\n{no_key}\n")), "{mistyped}");
    assert!(message(&with_keys, "claude-sonet-5-5").contains(unknown));
    // A name in config.toml does not count as a typo.
    let configured = "[providers.anthropic]\nmodels = [\"claude-sonet-5-5\"]\n";
    with_keys.write("home/config/config.toml", configured);
    assert!(!message(&with_keys, "claude-sonet-5-5").contains('⚠'));
    bare.write("home/config/credentials.json", "not JSON");
    let broken = message(&bare, "claude-sonnet-5-5");
    assert!(broken.contains("  ⚠ The key for anthropic cannot be used: "), "{broken}");
}

#[test]
fn unavailable_model_is_rejected_with_documented_texts() {
    let lines =
        [("Anthropic:", "anthropic"), ("OpenAI:", "openai"), ("Google:", "google"), ("xAI:", "xai"), ("Meta:", "meta")];
    let lines = lines.map(|(label, provider)| format!("\n  {label:10} {}", listed(provider).join(", "))).concat();
    let supported = format!("\n\nSupported models:{lines}\n  Demo:      demo-1, demo-small, demo-big");
    let levels = "Valid levels: none, low, med, high";
    let table = [
        ("/model unknown-model", "unknown_model", format!("Unknown model: unknown-model{supported}")),
        ("/model unknown-model/high", "unknown_model", format!("Unknown model: unknown-model{supported}")),
        (
            "/model claude-sonnet-4-5/maximum",
            "invalid_thinking_level",
            format!("Invalid thinking level: maximum\n{levels}"),
        ),
        // The level is checked before the provider.
        (
            "/model unknown-model/maximum",
            "invalid_thinking_level",
            format!("Invalid thinking level: maximum\n{levels}"),
        ),
        ("/model gpt-4o/MED", "invalid_thinking_level", format!("Invalid thinking level: MED\n{levels}")),
        (
            "/model claude-sonnet-5-5/maximum",
            "invalid_thinking_level",
            format!("Invalid thinking level: maximum\n{levels}, xhigh, max"),
        ),
        ("/model gpt-4o/max", "invalid_thinking_level", format!("Invalid thinking level: max\n{levels}")),
        ("/model unknown-model/max", "unknown_model", format!("Unknown model: unknown-model{supported}")),
        ("/model", "invalid_args", "Error: /model requires a model name.".to_owned()),
        ("/model /high", "invalid_args", "Error: /model requires a model name.".to_owned()),
        ("/model gpt-4o/", "invalid_args", "Error: a thinking level must follow '/' in 'gpt-4o/'.".to_owned()),
        ("/providers now", "invalid_args", "Error: /providers accepts 'refresh' or nothing.".to_owned()),
    ];
    let answers = Patchbay::new().answers(&table.each_ref().map(|(line, ..)| *line));
    for ((line, code, message), answer) in table.iter().zip(&answers) {
        assert_eq!((answer.code(), answer.message()), (*code, &**message), "{line}");
    }
}

/// Returns a bundled provider's models except those that were shut down: first the head of the table, then by release date and id.
fn listed(provider: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../plugins/providers/{provider}/models.json"));
    let table: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let living = table["models"].as_array().unwrap().iter().filter(|model| model["lifecycle"]["status"] != "retired");
    let mut models: Vec<_> = living.enumerate().collect();
    models.sort_by_key(|(place, model)| {
        let place = if model["default"] == true { *place } else { usize::MAX };
        let released = model["lifecycle"]["released-on"].as_str().map(str::to_owned);
        (place, std::cmp::Reverse(released), model["id"].as_str().map(str::to_owned))
    });
    models.into_iter().map(|(_, model)| model["id"].as_str().unwrap().to_owned()).collect()
}

/// Returns a provider's first twelve models, and the number of the others.
fn shown(models: &[String]) -> String {
    let more = models.len().saturating_sub(12);
    let more = if more > 0 { format!(", … and {more} more") } else { String::new() };
    models[..models.len().min(12)].join(", ") + &more
}

#[test]
fn providers_lists_the_state_of_each_provider() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/credentials.json", "{\"google\": {\"api_key\": \"s3cret-key\"}}");
    let ran = ran(keyless(&patchbay, &["exec", "/providers"]).env("XAI_API_KEY", "s3cret-key").output().unwrap());
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    assert!(!ran.out.contains("s3cret-key"));
    let paragraphs: Vec<_> = ran.out.trim_end().split("\n\n").collect();
    let names: Vec<_> = paragraphs.iter().map(|text| text.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["anthropic", "openai", "google", "xai", "meta", "openai-compatible", "demo"]);
    let version = env!("CARGO_PKG_VERSION");
    for (at, name, origin, prefixes, models, key) in [
        (
            0,
            "anthropic",
            "https://api.anthropic.com",
            "claude-",
            &shown(&listed("anthropic")),
            "missing: set ANTHROPIC_API_KEY, or add \"anthropic\": {\"api_key\": \"…\"} to credentials.json",
        ),
        (
            1,
            "openai",
            "https://api.openai.com/v1",
            "gpt-, o1, o3, o4",
            &shown(&listed("openai")),
            "missing: set OPENAI_API_KEY, or add \"openai\": {\"api_key\": \"…\"} to credentials.json",
        ),
        (
            2,
            "google",
            "https://generativelanguage.googleapis.com",
            "gemini-",
            &shown(&listed("google")),
            "present (GOOGLE_API_KEY or GEMINI_API_KEY, or credentials.json)",
        ),
        (
            3,
            "xai",
            "https://api.x.ai/v1",
            "grok-",
            &shown(&listed("xai")),
            "present (XAI_API_KEY, or credentials.json)",
        ),
        (
            4,
            "meta",
            "https://api.meta.ai/v1",
            "llama-, muse-",
            &shown(&listed("meta")),
            "missing: set MODEL_API_KEY, or add \"meta\": {\"api_key\": \"…\"} to credentials.json",
        ),
        (6, "demo", "(none)", "demo-", &"demo-1, demo-small, demo-big".to_owned(), "not needed"),
    ] {
        let state = if key.starts_with("missing") { "needs key" } else { "ready" };
        let in_use = if name == "demo" { "\n  in use    demo:demo-1" } else { "" };
        let expected = format!(
            "{name} - {state} ({name} {version}, bundled){in_use}\n  origin    {origin}\n  prefixes  {prefixes}\n  models    \
             {models}\n  key       {key}"
        );
        assert_eq!(paragraphs[at], expected);
    }
    assert!(paragraphs[5].starts_with("openai-compatible - needs origin ("), "{}", paragraphs[5]);
    assert!(paragraphs[5].contains("origin in [providers.openai-compatible]"), "{}", paragraphs[5]);
}

/// The error names the mistake in the table instead of an unknown model.
#[test]
fn model_of_a_rejected_table_names_the_provider() {
    let patchbay = Patchbay::new();
    let config = "[providers.lab]\nadapter = \"openai-compatible\"\norigin = \"http://192.168.1.20:8000/v1\"\n\
                  prefixes = [\"mistral-\"]\n[providers.far]\nadapter = \"openai-compatible\"\n\
                  origin = \"http://example.com/v1\"\nmodels = [\"far-1\"]\n[providers.gone]\nadapter = \"nowhere\"\n\
                  prefixes = [\"gone-\"]\n";
    patchbay.write("home/config/config.toml", config);
    let answers = patchbay.answers(&["/model mistral-7b", "/model far-1/high", "/model gone-2", "/model other-1"]);
    let expected = [
        "Error: provider 'lab' cannot be used: its origin cannot be used: requests to http://192.168.1.20:8000 \
         would be unencrypted: plain http is only allowed for this machine. Use https; for a machine on your own network, set allow_private = true",
        "Error: provider 'far' cannot be used: its origin cannot be used: requests to http://example.com would be \
         unencrypted: plain http is only allowed for this machine. Use https; for a machine on your own network, set allow_private = true",
        "Error: provider 'gone' cannot be used: adapter 'nowhere'",
    ];
    for (answer, expected) in answers.iter().zip(expected) {
        assert_eq!(answer.code(), "provider_unusable", "{}", answer.message());
        assert!(answer.message().starts_with(expected), "{}", answer.message());
    }
    assert_eq!(answers[3].code(), "unknown_model");
    assert!(!patchbay.line("/providers").contains("grant"));
}

/// The list of models comes from the manifests of the adapters.
#[tokio::test]
async fn model_completion_offers_available_models() {
    let patchbay = Patchbay::new();
    let host = host(&patchbay, Settings::default());
    let session = host.new_session(&patchbay.workspace()).await.unwrap();
    let complete = async |line: &str| {
        let found = session.complete(line).await;
        found.into_iter().map(|found| found.text).collect::<Vec<_>>()
    };
    let found = complete("/model ").await;
    let first =
        ["", "/none", "/low", "/med", "/high", "/xhigh", "/max"].map(|level| format!("claude-sonnet-5-5{level}"));
    assert_eq!(found[..7], first);
    assert_eq!(found[7], "claude-opus-5-5");
    let living = ["anthropic", "openai", "google", "xai", "meta"].map(listed).concat().join(", ")
        + ", demo-1, demo-small, demo-big";
    let names: Vec<_> = found.iter().filter(|name| !name.contains('/')).map(String::as_str).collect();
    assert_eq!(names.join(", "), living);
    assert_eq!(complete("/model o3/").await, ["o3/low", "o3/med", "o3/high"]);
    assert_eq!(complete("/model o3-mini").await, [""; 0]);
    assert_eq!(complete("/model nothing").await, [""; 0]);
}

#[test]
fn model_selection_persists_across_processes() {
    let patchbay = Patchbay::quick();
    assert_eq!(patchbay.run(&["exec", "/model demo-big/high"]).code, Some(0));
    let session = patchbay.last_session();
    for line in ["one", "/calc 1", "two"] {
        let answer = &patchbay.answers_in(&["--session", &session], &[line])[0];
        assert_eq!(answer.outcome["status"], "ok");
        for row in answer.events.iter().filter(|event| event["kind"] == "assistant") {
            assert_eq!((&row["data"]["model"], &row["data"]["level"]), (&json!("demo-big"), &json!("high")), "{row}");
        }
    }
    // A new session uses the default model.
    patchbay.write(
        "home/config/config.toml",
        "default_model = \"demo-small/low\"\n[providers.demo]\noptions = { delay-ms = \"0\" }\n",
    );
    let answers = patchbay.answers(&["one", "/model demo-1", "two"]);
    let models: Vec<_> = answers
        .iter()
        .flat_map(|answer| answer.events.iter().filter(|event| event["kind"] == "assistant"))
        .map(|row| row["data"]["model"].as_str().unwrap())
        .collect();
    assert_eq!(models, ["demo-small", "demo-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn model_switch_during_an_answer_is_rejected() {
    let patchbay = Patchbay::new();
    let session = host(&patchbay, Settings::default()).new_session(&patchbay.workspace()).await.unwrap();
    let mut events = session.subscribe(1);
    // Two minutes of text, which the test stops below.
    let turn = session.submit("repeat 6000 word");
    let streams = async {
        while let Ok(Some(received)) = events.next().await {
            if let patchbay_session::Received::Event(event) = received
                && matches!(event.kind, patchbay_core::EventKind::Delta { .. })
            {
                return;
            }
        }
        panic!("nothing streams");
    };
    tokio::time::timeout(Duration::from_secs(60), streams).await.unwrap();
    let refused = session.submit("/model demo-big").await;
    let words =
        "Error: cannot switch model while a response is streaming. Wait for it to finish or press Ctrl+C to cancel it.";
    assert_eq!((refused.code.as_str(), &*refused.line()), ("turn_running", words));
    // Other commands keep working.
    assert!(session.submit("/providers").await.is_ok());
    assert!(session.is_answering(), "it goes on");
    assert!(session.stop(turn.id()));
    let stopped = tokio::time::timeout(Duration::from_secs(60), turn).await.unwrap();
    assert_eq!(stopped.code.as_str(), "turn_cancelled");
    assert!(!session.is_answering());
    assert_eq!(session.submit("/model demo-big").await.code.as_str(), "model_set");
}

#[test]
fn message_without_a_key_is_stored_but_not_sent() {
    let patchbay = Patchbay::quick();
    let lines = ["/model claude-sonnet-4-5/med", "Hello!", "/model demo-1", "show context"];
    let ran = ran(keyless(&patchbay, &[&["exec", "--json", "--keep-going"], &lines[..]].concat()).output().unwrap());
    let objects = patchbay_tests::answers::json_lines(&ran.out);
    let outcomes: Vec<_> = objects.iter().filter(|object| object.get("line").is_some()).collect();
    // The error is reported for a message, not by `/model`.
    assert_eq!(outcomes[0]["code"], "model_set");
    let words = "No credentials for anthropic. Set ANTHROPIC_API_KEY or add to credentials.json\n\nGet your API key at: \
                 https://console.anthropic.com/settings/keys";
    assert_eq!((&outcomes[1]["code"], &outcomes[1]["message"]), (&json!("missing_credentials"), &json!(words)));
    // The message is stored, and the next model receives it.
    assert_eq!(outcomes[3]["code"], "answered");
    let kept = objects.iter().filter(|object| object["kind"] == "user" && object["content"] == "Hello!");
    assert_eq!(kept.count(), 1);
    let context = outcomes[3]["message"].as_str().unwrap();
    assert!(context.contains("demo-1"), "{context}");
    let session = patchbay.last_session();
    let again = patchbay.answers_in(&["--session", &session], &["Hello!"]);
    assert_eq!(again[0].message(), "You said: Hello!");
}

/// `/model` shows the level that is sent, as set by the operator's option.
#[test]
fn unsupported_thinking_level_is_not_announced() {
    let patchbay = Patchbay::new();
    let table = |more: &str| {
        let table = "[providers.local]\nadapter = \"openai-compatible\"\norigin = \"http://127.0.0.1:9/v1\"\n";
        patchbay.write("home/config/config.toml", format!("{table}{more}"));
        patchbay.answers(&["/model local:qwen3/high", "/model local:qwen3"])
    };
    let sent = table("");
    assert!(sent[0].message().ends_with("\n  Thinking: high effort"), "{}", sent[0].message());
    let off = table("options = { reasoning = \"off\" }\n");
    let words = "\n  ⚠ Thinking levels are not sent: option 'reasoning' of this provider is 'off'\n  Thinking: provider default";
    assert!(off[0].message().ends_with(words), "{}", off[0].message());
    assert!(!off[1].message().contains('⚠'), "{}", off[1].message());
}

/// An invalid entry disables only its own provider, and is reported only when that provider is used.
#[test]
fn bad_credentials_entry_affects_only_its_provider() {
    let patchbay = Patchbay::new();
    let entries = r#"{"anthropic": {"key": "sk-s3ntinel"}, "openai": {"api_key": "s3ntinel-2", "org": "x"}}"#;
    patchbay.write("home/config/credentials.json", entries);
    let file = patchbay.home().join("config/credentials.json");
    let mut command = patchbay.command(&["exec", "--keep-going", "/providers", "/model claude-x", "Hello"]);
    let ran = ran(command.env_remove("ANTHROPIC_API_KEY").env_remove("OPENAI_API_KEY").output().unwrap());
    assert!(ran.out.contains("present (OPENAI_API_KEY, or credentials.json)"), "{}", ran.out);
    let words =
        format!("{}: the entry 'anthropic' has no key; write \"anthropic\": {{\"api_key\": \"…\"}}", file.display());
    assert!(ran.out.contains(&words), "{}", ran.out);
    assert!(ran.err.contains(&format!("Error: {words}.\n")), "{}", ran.err);
    assert!(!format!("{ran:?}").contains("s3ntinel"), "{ran:?}");
}

#[test]
fn readable_key_file_prints_a_warning() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/credentials.json", "{\"openai\": {\"api_key\": \"s3ntinel\"}}");
    let file = patchbay.home().join("config/credentials.json");
    let warnings = || {
        let ran = ran(keyless(&patchbay, &["exec", "/providers"]).output().unwrap());
        assert!(ran.out.contains("present (OPENAI_API_KEY, or credentials.json)"), "{}", ran.out);
        let log = fs::read_to_string(patchbay.home().join("state/patchbay.log")).unwrap_or_default();
        assert!(!log.contains("s3ntinel"));
        log.matches("other users can read").count()
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(warnings(), 0);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(warnings(), 1);
}

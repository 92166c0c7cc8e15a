//! Tests of whole conversations with the demo, through a simulated host.

mod agents;
mod host;

use patchbay_provider_sdk::{BlobRef, Block, BlockKind, Message, Pair, Part, Piece, Role, Tool, ToolCall, ToolResult};
use proptest::prelude::*;

use super::*;
use host::{ask, part, person, request, result, run, text, thinking, user};

#[test]
fn text_is_echoed() {
    let said = ask("Hello,  dear\nworld ");
    assert_eq!(said.text(), "You said: Hello,  dear\nworld");
    assert_eq!(said.blocks.len(), 1);
    assert_eq!(said.deltas, 5);
    assert_eq!(said.stop(), "end-turn");
    for nothing in ["", "  \n "] {
        assert_eq!(ask(nothing).text(), "You said nothing.");
    }
    assert_eq!(run(request(Vec::new())).text(), "You said nothing.");
}

#[test]
fn delay_option_sets_the_time_between_words() {
    let with = |value: &str| {
        let options = vec![Pair { name: "delay-ms".to_owned(), value: value.to_owned() }];
        run(CompletionRequest { options, ..request(vec![person("hello")]) }).waits
    };
    assert!(with("0").is_empty());
    assert_eq!(with("5"), [5, 5, 5]);
    assert_eq!(with("soon"), [20, 20, 20]);
    assert_eq!(with("4000000000"), [60_000; 3]);
    let without = run(CompletionRequest { options: Vec::new(), ..request(vec![person("hello")]) });
    assert_eq!(without.waits, [20, 20, 20]);
}

#[test]
fn say_and_repeat_answer_exactly() {
    assert_eq!(ask("say  a b ").text(), " a b ");
    assert_eq!(ask("say one\nnot this\nsay two").text(), "one\ntwo");
    assert_eq!(ask("repeat 3 ab c").text(), "ab c ab c ab c");
    assert_eq!(ask("say ").blocks, []);
    assert_eq!(ask("repeat 0 a").text(), "You said: repeat 0 a");
    assert_eq!(ask("they say so").text(), "You said: they say so");
}

#[test]
fn skill_instructions_are_counted() {
    let rules = "Rule.\n".repeat(20);
    let plan = format!("# Plan\n\n<goal>\nMove the shop\n</goal>\n{rules}");
    assert_eq!(ask(&plan).text(), "Skill instructions, 25 lines, and: Move the shop");
    assert_eq!(ask(&format!("# Plan\n{rules}")).text(), "Skill instructions, 21 lines.");
    let two = run(request(vec![user(vec![text(&plan), text("Move the bakery")])]));
    assert_eq!(two.text(), "Skill instructions, 25 lines, and: Move the bakery");
    // A short text with a heading and a long text without one are not instructions.
    assert_eq!(ask("# Plan\nRule.").text(), "You said: # Plan\nRule.");
    assert!(ask(&rules).text().starts_with("You said: Rule.\n"));
}

#[test]
fn long_answer_is_limited_and_has_small_steps() {
    let said = ask("repeat 5000 x");
    assert_eq!((said.deltas, said.waits), (5000, vec![0; 5]));
    assert_eq!(ask("repeat 99999999999 x").deltas, 1_000_000);
    assert_eq!(ask("repeat 99999999999 two words").deltas, 1_000_000);
    let long = "x".repeat(1 << 20);
    assert_eq!(ask(&format!("repeat 100 {long}")).deltas, 7);
    assert_eq!(ask(&format!("repeat 100 {long}\n").repeat(9)).text().len() >> 20, 8);
}

#[test]
fn calls_follow_the_text_in_order() {
    let said = ask("before\ncall calc__eval {\"line\": \"1+1\"}\nafter\n  call x {}  \r\ncall broken {\"a\": ");
    assert_eq!(said.text(), "You said: before\nafter");
    assert_eq!(said.blocks[0].0, BlockKind::Text);
    let calls =
        [("call_1", "calc__eval", "{\"line\": \"1+1\"}"), ("call_2", "x", "{}"), ("call_3", "broken", "{\"a\":")];
    assert_eq!(said.calls(), calls);
    assert_eq!(said.deltas, 4 + 3 + 2 + 3);
    assert_eq!(said.stop(), "tool-use");
    // A malformed call is text.
    assert_eq!(ask("call mom").text(), "You said: call mom");
    assert_eq!(ask("call mom about {dinner}").text(), "You said: call mom about {dinner}");
    // Without text, the answer has no text block.
    assert_eq!(ask("call x {}").blocks.len(), 1);
    assert_eq!(ask("call x {\"ä\":\"öüß€😀\"}").calls(), [("call_1", "x", "{\"ä\":\"öüß€😀\"}")]);
}

#[test]
fn results_are_listed_and_rounds_continue() {
    let first = person("go\ncall a {\"n\":1}\ncall b {}\nthen call c {\"n\":2}\nthen say done");
    let mut messages = vec![first];
    let said = run(request(messages.clone()));
    assert_eq!((said.text(), said.calls().len()), ("You said: go", 2));

    messages.extend([said.message(), user(vec![result("call_1", "a", "1"), result("call_2", "b", "2")])]);
    let said = run(request(messages.clone()));
    assert_eq!((said.text(), said.stop()), ("", "tool-use"));
    assert_eq!(said.calls(), [("call_3", "c", "{\"n\":2}")]);

    messages.extend([said.message(), user(vec![result("call_3", "c", "3")])]);
    let said = run(request(messages.clone()));
    assert_eq!((said.text(), said.stop()), ("done", "end-turn"));

    // The next text begins at round 0; ids continue.
    messages.extend([said.message(), person("call d {}")]);
    let said = run(request(messages.clone()));
    assert_eq!(said.calls(), [("call_4", "d", "{}")]);

    let failed = ToolResult {
        call_id: "call_4".to_owned(),
        name: "d".to_owned(),
        content: vec![
            Piece::Text("no\nluck".to_owned()),
            Piece::Blob(BlobRef { id: 1, media_type: "image/png".to_owned(), name: None, size: 9 }),
        ],
        is_error: true,
    };
    messages.extend([said.message(), user(vec![part(Block::ToolResult(failed)), result("x", "e", "5")])]);
    let said = run(request(messages.clone()));
    assert_eq!(said.text(), "d failed: no\nluck\n[image/png, 9 bytes]\ne said: 5");
    assert_eq!(said.stop(), "end-turn");

    // After a cancelled turn, results and the next text are in one message.
    messages.last_mut().unwrap().parts.push(text("hello"));
    let said = run(request(messages));
    assert!(said.text().ends_with("\ne said: 5\nYou said: hello"), "{}", said.text());
}

#[test]
fn ids_are_unique_without_the_beginning() {
    let call = |id: &str| ToolCall { id: id.to_owned(), name: "a".to_owned(), input: "{}".to_owned() };
    let with = |id: &str| {
        let called = Message { role: Role::Assistant, parts: vec![part(Block::ToolCall(call(id)))] };
        let messages = vec![person("x"), called, user(vec![result(id, "a", "1"), text("call a {}")])];
        run(request(messages)).calls()[0].0.to_owned()
    };
    assert_eq!(with("call_7"), "call_8");
    assert_eq!(with("toolu_abc"), "call_2");
    assert_eq!(with("call_18446744073709551615"), "call_2");
}

#[test]
fn fail_commands_fail() {
    let cases = [
        ("fail rate-limit", "rate-limit", Retry::Backoff),
        ("hello\nfail rate-limit 3", "rate-limit", Retry::AfterMs(3000)),
        ("fail rate-limit 0", "rate-limit", Retry::AfterMs(1)),
        ("fail authentication never", "authentication", Retry::Never),
        ("call x {}\nfail server", "server", Retry::Backoff),
        ("fail network 18446744073709551615", "network", Retry::AfterMs(u64::MAX)),
    ];
    for (told, kind, retry) in cases {
        let said = ask(told);
        assert_eq!(said.blocks, []);
        let message = format!("demo fails as requested: {kind}");
        let failure = Failure { kind: kind.to_owned(), message, http_status: None, code: None, retry };
        assert_eq!(*said.failure(), failure);
    }
    for told in ["fail early", "fail server soon", "fail server after", "fail server 3 times", "fail server after x"] {
        assert_eq!(ask(told).text(), format!("You said: {told}"));
    }
}

#[test]
fn fail_after_words_breaks_the_answer() {
    for told in ["say one two three\nfail server 2 after 2", "say one two three\nfail server 2 after 2 words"] {
        let said = ask(told);
        assert_eq!((said.text(), said.open), ("one two", true));
        assert_eq!(said.failure().retry, Retry::AfterMs(2000));
        assert_eq!(said.usage.unwrap().output_tokens, 2);
    }
    assert_eq!(ask("fail network after 9").text(), "This answer breaks off before its end. This answer");
    let said = ask("fail network after 0");
    assert_eq!((said.blocks.len(), said.text(), said.open), (1, "", true));
    // A later round can fail, too.
    let mut messages = vec![person("call a {}\nthen fail server never after 1")];
    messages.extend([run(request(messages.clone())).message(), user(vec![result("call_1", "a", "1")])]);
    assert_eq!(run(request(messages)).failure().kind, "server");
}

#[test]
fn failed_text_does_not_fail_again() {
    let said = run(request(vec![user(vec![text("fail rate-limit"), text("hello")])]));
    assert_eq!(said.text(), "You said: hello");
}

#[test]
fn hang_never_ends_the_answer() {
    let said = ask("hang");
    assert!(said.hangs && said.blocks.is_empty(), "{said:?}");
    let said = ask("say one two\ncall x {}\n hang ");
    assert!(said.hangs && said.open && said.calls().is_empty(), "{said:?}");
    assert_eq!(said.text(), "one two");
    // A later round can hang, too.
    let mut messages = vec![person("call a {}\nthen hang")];
    messages.extend([run(request(messages.clone())).message(), user(vec![result("call_1", "a", "1")])]);
    assert!(run(request(messages)).hangs);
    // A failure ends the answer, even an earlier one.
    assert_eq!(ask("hang\nfail server").failure().kind, "server");
    // A text that was stopped does not hang again.
    let said = run(request(vec![user(vec![text("pause 5\nhang"), text("hello")])]));
    assert_eq!((said.text(), said.waits.len()), ("You said: hello", 0));
    assert_eq!(ask("hang on").text(), "You said: hang on");
}

#[test]
fn pause_delays_the_answer() {
    let said = ask("pause 300\nhello");
    assert_eq!((said.text(), said.waits.as_slice()), ("You said: hello", &[300][..]));
    assert_eq!(ask("pause 300\npause 5").waits, [305]);
    for long in ["60001", "4294967296", "18446744073709551615"] {
        assert_eq!(ask(&format!("pause {long}\npause {long}")).waits, [60_000]);
    }
    assert!(ask("pause 0").waits.is_empty());
    let said = ask("fail server\npause 300");
    assert_eq!((said.waits.as_slice(), said.failure().kind.as_str()), (&[300][..], "server"));
    for line in ["pause", "pause a while", "pause -1", "pause 1 2"] {
        assert_eq!(ask(line).text(), format!("You said: {line}"));
    }
    let mut messages = vec![person("call a {}\nthen pause 7\nthen say x")];
    messages.extend([run(request(messages.clone())).message(), user(vec![result("call_1", "a", "1")])]);
    assert_eq!(run(request(messages)).waits, [7]);
}

#[test]
fn stop_command_sets_the_stop_word() {
    let said = ask("hello\nstop refusal");
    assert_eq!((said.text(), said.stop()), ("You said: hello", "refusal"));
    assert_eq!(ask("stop max-tokens").stop(), "max-tokens");
    assert_eq!(ask("stop it").text(), "You said: stop it");
}

#[test]
fn thought_needs_its_signature_back() {
    assert_eq!(thinking("none", vec![person("hello")]).blocks.len(), 1);
    let mut messages = vec![person("hello")];
    let said = thinking("med", messages.clone());
    let (kind, thought, signature) = &said.blocks[0];
    assert_eq!(*kind, BlockKind::Thinking);
    assert_eq!(thought, "Thinking at level med about 1 message.");
    assert_eq!(signature.as_deref(), Some("demo-signature-1"));
    assert_eq!(said.text(), "You said: hello");

    messages.extend([said.message(), person("again")]);
    let said = thinking("high", messages.clone());
    assert_eq!(said.blocks[0].1, "Thinking at level high about 3 messages.");
    assert_eq!(said.text(), "You said: again");

    messages.extend([said.message(), person("once more")]);
    assert_eq!(run(request(messages.clone())).text(), "You said: once more");
    let lost = "You said: once more\n[thinking came back without its signature]";
    for wrong in [None, Some("demo-signature-1".to_owned())] {
        messages[3].parts[0].opaque = wrong;
        assert_eq!(run(request(messages.clone())).text(), lost);
    }
    // Thoughts of other models and providers are not checked.
    let another = CompletionRequest { model: "demo-big".to_owned(), ..request(messages.clone()) };
    assert_eq!(run(another).text(), "You said: once more");
    messages[3].parts[0].block = Block::Thinking("Thinking at level high about many messages.".to_owned());
    assert_eq!(run(request(messages)).text(), "You said: once more");
}

#[test]
fn each_model_has_its_own_thoughts() {
    for (model, thought) in [("demo-small", "Thinking small at"), ("demo-big", "Thinking big at")] {
        let ask = |messages: Vec<Message>| {
            run(CompletionRequest { model: model.to_owned(), thinking: Some("low".to_owned()), ..request(messages) })
        };
        let mut messages = vec![person("hello")];
        let said = ask(messages.clone());
        assert!(said.blocks[0].1.starts_with(thought), "{said:?}");
        messages.extend([said.message(), person("again")]);
        assert_eq!(ask(messages.clone()).text(), "You said: again");
        messages[1].parts[0].opaque = None;
        assert!(ask(messages).text().ends_with("signature]"));
    }
}

#[test]
fn summary_names_the_last_text() {
    let answer = |text: &str| Message { role: Role::Assistant, parts: vec![self::text(text)] };
    let please = "Summarise the conversation so far. Keep it short.";
    let long = "fail server\n".to_owned() + &"ä".repeat(100);
    let said = run(request(vec![person("first"), answer("a"), person(&long), answer("b"), person(please)]));
    assert_eq!(said.text(), format!("Summary: 4 messages, last: fail server {}", "ä".repeat(48)));
    // The request for a summary is in one message with a text.
    let said = run(request(vec![person("first"), answer("a"), user(vec![text("second"), text(please)])]));
    assert_eq!(said.text(), "Summary: 3 messages, last: second");
    let called = user(vec![result("call_1", "a", "1"), text(please)]);
    let said = run(request(vec![person("first"), answer("a"), called]));
    assert_eq!(said.text(), "Summary: 3 messages, last: first");
    assert_eq!(run(request(vec![person(please)])).text(), "Summary: 0 messages, last: ");
    let not_first = format!("Please. {please}");
    assert_eq!(ask(&not_first).text(), format!("You said: {not_first}"));
}

#[test]
fn show_context_describes_the_request() {
    let image = BlobRef { id: 1, media_type: "image/png".to_owned(), name: Some("a.png".to_owned()), size: 345 };
    let thought = Part { block: Block::Thinking("hm".to_owned()), opaque: Some("sig".to_owned()) };
    let call = ToolCall { id: "call_1".to_owned(), name: "calc__eval".to_owned(), input: "{}".to_owned() };
    let said = run(CompletionRequest {
        system: vec!["You are kind.\nVery.".to_owned(), String::new()],
        tools: vec![Tool {
            name: "calc__eval".to_owned(),
            description: "Reckons".to_owned(),
            input_schema: "{}".to_owned(),
        }],
        thinking: Some("low".to_owned()),
        ..request(vec![
            user(vec![text("hello"), part(Block::Blob(image))]),
            Message { role: Role::Assistant, parts: vec![thought, part(Block::ToolCall(call))] },
            user(vec![result("call_1", "calc__eval", "2"), text("look\nshow context")]),
        ])
    });
    let expected = "\
calc__eval said: 2
You said: look
model: demo-1
level: low
messages: 3
1 user: text(5), image/png(345, a.png)
2 assistant: thinking(2) + opaque(3), call(call_1, calc__eval, 2)
3 user: result(call_1, calc__eval, text(1)), text(17)
system: 2
system 1: You are kind.
system 2: 
tools: calc__eval
tool choice: auto
max output tokens: provider default
options: delay-ms=0";
    assert_eq!(said.text(), expected);
}

#[test]
fn tokens_are_words() {
    let said = run(CompletionRequest {
        system: vec!["be kind".to_owned()],
        thinking: Some("med".to_owned()),
        ..request(vec![person("a b\ncall x {\"a\": 1}")])
    });
    let usage = said.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.thinking_tokens), (2 + 6, 7));
    assert_eq!(usage.output_tokens, 7 + 4 + 3);
}

#[test]
fn answer_ends_at_the_output_limit() {
    let with =
        |most| run(CompletionRequest { max_output_tokens: Some(most), ..request(vec![person("a b\ncall x {}")]) });
    let said = with(3);
    assert_eq!((said.text(), said.stop(), said.calls()), ("You said: a ", "max-tokens", vec![]));
    assert_eq!(with(4).stop(), "tool-use");
    assert_eq!((with(0).text(), with(0).stop()), ("", "max-tokens"));
}

#[test]
fn unknown_models_fail() {
    let failure = run(CompletionRequest { model: "demo-x".to_owned(), ..request(Vec::new()) }).end.unwrap_err();
    assert_eq!((failure.kind.as_str(), failure.message.as_str()), ("not-found", "There is no model 'demo-x'."));
    assert_eq!(failure.retry, Retry::Never);
}

#[test]
fn manifest_and_levels() {
    let manifest = Demo::describe();
    assert_eq!(manifest, Demo::describe());
    let models: Vec<_> = manifest.models.iter().map(|model| (model.id.as_str(), model.size.as_str())).collect();
    assert_eq!(models, [("demo-1", "normal"), ("demo-small", "small"), ("demo-big", "large")]);
    for (level, line) in [
        (Some("none"), "Thinking: off"),
        (Some("low"), "Thinking: low"),
        (Some("med"), "Thinking: medium"),
        (Some("high"), "Thinking: high"),
        (None, "Thinking: provider default"),
    ] {
        let plan = Demo::explain_thinking("demo-1", level);
        assert_eq!((plan.description, plan.warning), (vec![line.to_owned()], None));
    }
}

proptest! {
    /// For any text, the contract is kept and the answer is deterministic.
    #[test]
    fn any_text_keeps_the_contract(
        lines in proptest::collection::vec(
            prop_oneof![
                "(on mail )?(then )?(say|repeat|call|fail|stop|show|pause|hang)( [$a-z0-9{}-]{0,6}){0,3}",
                "(then )?fail (server|network)( (never|[0-9]{1,20}))?( after [0-9]{1,3})?",
                "(then )?(call [a-z]{1,3} \\{.{0,9}|stop (other|tool-use)|repeat [0-9]{1,4} \\PC{0,5}|show context)",
                "\\PC{0,20}",
            ],
            0..6,
        ),
        level in proptest::option::of(prop_oneof!["none", "low", "\\PC{0,5}"]),
        most in proptest::option::of(0_u32..30),
        answered in any::<bool>(),
    ) {
        let mut messages = vec![person(&lines.join("\n"))];
        if answered {
            let called = ToolCall { id: lines.concat(), name: lines.concat(), input: lines.concat() };
            messages.push(Message { role: Role::Assistant, parts: vec![part(Block::ToolCall(called))] });
            messages.push(user(vec![result("x", "y", "z")]));
        }
        let request = CompletionRequest { thinking: level, max_output_tokens: most, ..request(messages) };
        prop_assert_eq!(run(request.clone()), run(request));
    }
}

//! Tests of programs, with a host in memory.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use patchbay_sdk::{
    Content, Result,
    tool_calls::{self, Blob, Error, Outcome, Request},
    tool_index::Tool,
};
use serde_json::json;

use crate::{host::Host, program};

/// A host with a few tools. Of the calls that run, the last one ends first.
#[derive(Default)]
struct Fake {
    running: RefCell<VecDeque<Outcome>>,
    next: RefCell<u32>,
    /// How many calls each `start` began.
    started: RefCell<Vec<usize>>,
    /// The reports, with the number of calls that were running.
    reported: RefCell<Vec<(String, usize)>>,
}

impl Host for Fake {
    fn start(&self, calls: &[Request]) -> Result<Vec<u32>> {
        self.started.borrow_mut().push(calls.len());
        let ids = calls.iter().map(|call| {
            let id = self.next.replace_with(|next| *next + 1);
            self.running.borrow_mut().push_back(Outcome { id, answer: answer(call) });
            id
        });
        Ok(ids.collect())
    }

    fn wait(&self) -> Vec<Outcome> {
        self.running.borrow_mut().pop_back().into_iter().collect()
    }

    fn report(&self, text: &str) {
        self.reported.borrow_mut().push((text.to_owned(), self.running.borrow().len()));
    }

    fn find(&self, query: &str, limit: u32) -> Result<Vec<Tool>> {
        let schema = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
        let name = if query.contains("__") { query } else { "echo__say" };
        let tool = Tool {
            name: name.to_owned(),
            description: format!("Finds {query} {limit}"),
            input_schema: schema.to_owned(),
            extra: Vec::new(),
        };
        Ok(vec![tool])
    }

    fn entries(&self, after: Option<&str>, _: u32) -> Result<Vec<Tool>> {
        if after.is_some() {
            return Ok(Vec::new());
        }
        let names = ["code__run", "echo__say", "mcp__s__t"];
        Ok(names.into_iter().flat_map(|name| self.find(name, 1)).flatten().collect())
    }
}

fn answer(call: &Request) -> std::result::Result<Vec<tool_calls::Content>, Error> {
    use tool_calls::Content;
    let error = |kind: &str, message: &str| Err(Error { kind: kind.to_owned(), message: message.to_owned() });
    match call.tool.as_str() {
        "echo__json" | "a-b__c" | "mcp__s__t" => Ok(vec![Content::Json(call.input.clone())]),
        "echo__say" => Ok(vec![Content::Text(call.input.clone())]),
        "echo__lines" => Ok(vec![Content::Text("a".into()), Content::Text("b".into())]),
        "echo__parts" => {
            let blob = Blob { media_type: "image/png".into(), data: vec![1, 2, 3] };
            Ok(vec![Content::Json("[1]".into()), Content::Blob(blob)])
        }
        "echo__wrong" => error("invalid", "input for 'echo__wrong' is invalid"),
        "echo__denied" => error("denied", "skill 'echo' may not use 'kv'"),
        _ => error("not-found", "tool not found"),
    }
}

/// Returns the parts of a program's answer.
fn run(code: &str) -> std::result::Result<Vec<String>, (String, String)> {
    run_on(&Rc::default(), code)
}

fn run_on(host: &Rc<Fake>, code: &str) -> std::result::Result<Vec<String>, (String, String)> {
    let input = json!({"n": 2});
    let host: Rc<dyn Host> = Rc::<Fake>::clone(host);
    match program::run(code, Some(&input), &host) {
        Ok(reply) => Ok(reply
            .content()
            .iter()
            .map(|part| match part {
                Content::Text(text) => text.clone(),
                Content::Json(json) => format!("json {json}"),
                _ => "other".to_owned(),
            })
            .collect()),
        Err(failure) => Err((failure.kind().to_owned(), failure.message().to_owned())),
    }
}

fn value(code: &str) -> String {
    run(code).unwrap().join("|")
}

#[test]
fn last_value_is_returned() {
    for (code, expected) in [
        ("6 * 7", "json 42"),
        ("'text'", "text"),
        ("input.n + 1", "json 3"),
        (
            "({a: [1, null, undefined], b: 10n, c: new Map([[1, 2]])})",
            r#"json {"a":[1,null,null],"b":"10","c":[[1,2]]}"#,
        ),
        ("undefined", "undefined"),
        ("let a = 1", "undefined"),
        ("await Promise.resolve(3)", "json 3"),
        ("(async () => 4)()", "json 4"),
        ("return 5", "json 5"),
        ("const f = () => {}; f", "() => {}"),
        ("'\\ud800'", "\u{fffd}"),
        ("new Uint8Array(3)", "[3 bytes]"),
        ("({a: new Uint8Array(70_000), b: [new ArrayBuffer(2)]})", r#"json {"a":"[70000 bytes]","b":["[2 bytes]"]}"#),
        ("[1,2,3].map((n) => n * input.n)", "json [2,4,6]"),
        ("typeof fetch + typeof require + typeof process + typeof setTimeout", "undefinedundefinedundefinedundefined"),
    ] {
        assert_eq!(value(code), expected, "{code}");
    }
}

#[test]
fn log_comes_before_the_value() {
    assert_eq!(
        value("console.log('a', 1, {b: 2}); console.error(new Error('x').message); 7"),
        "a 1 {\"b\":2}\nx|json 7"
    );
    assert_eq!(value("console.log('only')"), "only");
    assert_eq!(
        value("console.log(new Uint8Array([1, 2]), {a: new Float64Array(1)})"),
        "[2 bytes] {\"a\":\"[8 bytes]\"}"
    );
}

#[test]
fn tools_are_called_with_json() {
    assert_eq!(value("await tools.echo.json({a: [1]})"), r#"json {"a":[1]}"#);
    assert_eq!(value("await tools.echo.say()"), "{}");
    assert_eq!(value("await tools['a-b'].c({x: 1})"), r#"json {"x":1}"#);
    assert_eq!(value("await tools.mcp.s.t({x: 1})"), r#"json {"x":1}"#);
    assert_eq!(value("await tools.echo__json({x: 1})"), r#"json {"x":1}"#);
    assert_eq!(value("await tools.echo.lines()"), "a\nb");
    assert_eq!(
        value("const [a, b] = await tools.echo.parts(); [a, b.mediaType, b.data.length]"),
        r#"json [[1],"image/png",3]"#
    );
}

#[test]
fn calls_run_side_by_side_up_to_eight() {
    let host = Rc::<Fake>::default();
    let code = "(await Promise.all(Array.from({length: 20}, (_, n) => tools.echo.json({n})))).map((it) => it.n).join()";
    let expected: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(run_on(&host, code).unwrap(), [expected.join(",")]);
    assert_eq!(host.started.borrow()[0], 8);
    assert!(host.started.borrow()[1..].iter().all(|started| *started == 1));
    assert_eq!(value("(await Promise.race([tools.echo.json({n: 1}), tools.echo.json({n: 2})])).n"), "json 2");
}

#[test]
fn calls_that_are_not_awaited_run_to_their_end() {
    let host = Rc::<Fake>::default();
    assert_eq!(run_on(&host, "tools.echo.json({}); 1").unwrap(), ["json 1"]);
    assert_eq!(*host.started.borrow(), [1]);
    let (kind, message) = run("tools.echo.denied({}); 1").unwrap_err();
    assert_eq!(kind, "denied");
    assert!(
        message.starts_with("a promise was rejected and not awaited: ToolError: skill 'echo' may not use 'kv'"),
        "{message}"
    );
}

#[test]
fn started_calls_of_a_failed_program_run_to_their_end() {
    // The last call ends first.
    let failing =
        "await Promise.all([tools.echo.json({}), tools.echo.wrong({}), tools.echo.say({}), tools.echo.denied({})])";
    let host = Rc::<Fake>::default();
    let (kind, message) = run_on(&host, failing).unwrap_err();
    assert_eq!(kind, "denied");
    let note = "\n3 other calls had been started and ran to the end; 1 of them failed.";
    assert!(message.ends_with(note), "{message}");
    assert!(host.running.borrow().is_empty());

    // No call begins after the failure, neither a queued call nor a call from a handler.
    let code = "const later = () => tools.echo.json({}); \
                await Promise.all(Array.from({length: 20}, (_, n) => n == 7 ? tools.echo.denied({}) : later().then(later)))";
    let host = Rc::<Fake>::default();
    let (_, message) = run_on(&host, code).unwrap_err();
    let note = "\n7 other calls had been started and ran to the end. 12 other calls had not been started.";
    assert!(message.ends_with(note), "{message}");
    assert_eq!(*host.started.borrow(), [8]);
    assert!(host.running.borrow().is_empty());

    // The same happens after an error of the program itself.
    let host = Rc::<Fake>::default();
    let code = "tools.echo.json({}); await tools.echo.json({}); null.x";
    let (kind, message) = run_on(&host, code).unwrap_err();
    assert_eq!(kind, "exception");
    assert!(message.ends_with("\n1 other call had been started and ran to the end."), "{message}");
    assert!(host.running.borrow().is_empty());
}

#[test]
fn error_is_reported_before_the_program_waits_for_calls() {
    let host = Rc::<Fake>::default();
    let code = "await Promise.all([tools.echo.say({}), tools.echo.json({}), tools.echo.denied({})])";
    run_on(&host, code).unwrap_err();
    let words = "ToolError: skill 'echo' may not use 'kv'\nThe program has failed and waits for 2 other calls.\n";
    assert_eq!(*host.reported.borrow(), [(words.to_owned(), 2)]);
    // If no other call is running, the failure itself is enough.
    let host = Rc::<Fake>::default();
    run_on(&host, "await tools.echo.denied({})").unwrap_err();
    assert_eq!(*host.reported.borrow(), []);
}

#[test]
fn failed_calls_throw_errors_with_kind_and_place() {
    let caught =
        "try { await tools.echo.denied({}) } catch (error) { [error.name, error.kind, error.tool, error.message] }";
    assert_eq!(value(caught), r#"json ["ToolError","denied","echo__denied","skill 'echo' may not use 'kv'"]"#);

    let (kind, message) = run("const a = 1;\n  await tools.echo.denied({});").unwrap_err();
    assert_eq!(
        (kind.as_str(), message.as_str()),
        ("denied", "ToolError: skill 'echo' may not use 'kv'\n    at code.js:2:20")
    );

    let (kind, message) = run("await tools.echo.wrong({})").unwrap_err();
    assert_eq!(kind, "invalid");
    assert!(
        message.contains("\ndeclare const tools: {\n  echo: {\n") && message.contains("wrong(input: {"),
        "{message}"
    );
    let (kind, message) = run("await tools.no.such({})").unwrap_err();
    assert!(kind == "not-found" && message.ends_with("Tools with similar names: echo__say."), "{message}");
}

#[test]
fn a_program_cannot_run_itself() {
    let (kind, message) = run("await tools.code.run({code: '1'})").unwrap_err();
    assert_eq!(kind, "denied");
    assert!(message.starts_with("ToolError: a program cannot run another program"), "{message}");
}

#[test]
fn errors_have_line_and_column() {
    for (code, kind, expected) in [
        (
            "let a = 1;\nlet b = null;\n  b.x",
            "exception",
            "TypeError: cannot read property 'x' of null\n    at code.js:3:3",
        ),
        ("let b = null; return b.x", "exception", "TypeError: cannot read property 'x' of null\n    at code.js:1:22"),
        ("let a = ;", "syntax-error", "SyntaxError: unexpected token in expression: ';'\n    at code.js:1:9"),
        ("throw {a: 1}", "exception", "Uncaught {\"a\":1}"),
        ("throw null", "exception", "Uncaught null"),
        (
            "const a = {}; a.a = a; a",
            "exception",
            "TypeError: the value of the program cannot be shown as JSON: circular reference",
        ),
        (
            "const a = {}; a.a = a;\nawait tools.echo.json(a)",
            "exception",
            "TypeError: circular reference\n    at code.js:2:",
        ),
        ("await new Promise(() => {})", "stalled", "the program waits for a promise that never settles"),
        ("import('fs')", "exception", "ReferenceError"),
        ("eval('1 +')", "syntax-error", "SyntaxError"),
    ] {
        let (found, message) = run(code).unwrap_err();
        assert_eq!(found, kind, "{code}: {message}");
        assert!(message.starts_with(expected), "{code}: {message}");
    }
    let (_, message) = run("console.log('before'); function f() { throw new Error('x') }\nf()").unwrap_err();
    assert_eq!(message, "Error: x\n    at code.js:1:49 (f)\n    at code.js:2:1\nLogged before:\nbefore");
}

#[test]
fn results_are_cut() {
    let long = value("'x'.repeat(100_000)");
    assert!(
        long.ends_with("[The value has 100000 bytes; 34464 of them are left out. Return less.]"),
        "{}",
        &long[65_000..]
    );
    let long = value("Array.from({length: 50_000}, () => 12)");
    assert!(long.starts_with("[12,12,") && long.contains("left out. Return less.]"));
    let logged = value("for (let n = 0; n < 10_000; n++) console.log('0123456789'); 1");
    assert!(logged.ends_with("more bytes were logged and left out. Log less.]|json 1"), "{}", &logged[65_000..]);
    assert!(logged.len() < 66_000);
}

#[test]
fn limits_of_the_interpreter_can_be_caught() {
    let recursion = "const f = () => f() + 1; try { f() } catch (error) { error.name }";
    assert_eq!(value(recursion), "RangeError");
    let memory = "try { const all = []; for (;;) all.push('x'.repeat(1e6) + all.length) } catch (error) { String(error?.message) }";
    assert_eq!(value(memory), "out of memory");
}

#[test]
fn globals_of_the_skill_cannot_be_replaced() {
    assert_eq!(value("tools = 1; console = 2; typeof tools + typeof console"), "objectobject");
    assert_eq!(
        value("JSON.stringify = () => 'no'; Array.prototype.map = null; await tools.echo.json({a: 1})"),
        r#"json {"a":1}"#
    );
}

#[test]
fn tools_can_be_listed() {
    for (code, expected) in [
        ("Object.keys(tools)", r#"json ["echo","mcp"]"#),
        ("Object.keys(tools.mcp)", r#"json ["s"]"#),
        ("Object.entries(tools.mcp.s).map(([name, tool]) => [name, typeof tool])", r#"json [["t","function"]]"#),
        (
            "const all = []; for (const skill in tools) all.push(...Object.keys(tools[skill])); all",
            r#"json ["say","s"]"#,
        ),
        ("['echo' in tools, 'nothing' in tools, 'say' in tools.echo]", "json [true,false,true]"),
        ("JSON.stringify(tools)", r#"{"echo":{},"mcp":{"s":{}}}"#),
        ("const {say} = tools.echo; await say({a: 1})", r#"{"a":1}"#),
        // A tool can be called whether or not it is listed.
        ("await tools.echo.json({a: 1})", r#"json {"a":1}"#),
    ] {
        assert_eq!(value(code), expected, "{code}");
    }
    let changes = "'use strict'; ['tools.x = 1', 'delete tools.echo', 'Object.freeze(tools)', \
                   'Object.setPrototypeOf(tools, {})'].map((code) => { try { eval(code) } catch (error) { return error.name } })";
    assert_eq!(value(changes), r#"json ["TypeError","TypeError","TypeError","TypeError"]"#);
}

#[test]
fn logged_lines_are_reported_while_the_program_runs() {
    let host = Rc::<Fake>::default();
    run_on(&host, "console.log('one', 1); await tools.echo.json({}); console.log('two')").unwrap();
    assert_eq!(*host.reported.borrow(), [("one 1\n".to_owned(), 0), ("two\n".to_owned(), 0)]);
    // Omitted parts of the log are not reported, because progress counts as output.
    let host = Rc::<Fake>::default();
    run_on(&host, "for (let n = 0; n < 100; n++) console.log('x'.repeat(10_000))").unwrap();
    assert_eq!(host.reported.borrow().len(), 6);
}

#[test]
fn declarations_are_found_inside() {
    let found = value("await tools.find('words to find')");
    assert!(
        found.starts_with("declare const tools: {\n  echo: {\n    /** Finds words to find 8 */\n    say("),
        "{found}"
    );
    assert_eq!(value("await tools.find()"), "tools.echo: say\ntools.mcp.s: t");
}

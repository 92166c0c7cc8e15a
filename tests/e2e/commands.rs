//! The exact texts of the built-in commands.

use patchbay_tests::binary::Patchbay;

/// Asserts the code and the message of each line.
fn assert_answers(patchbay: &Patchbay, expected: &[(&str, &str, &str)]) {
    let lines: Vec<&str> = expected.iter().map(|(line, ..)| *line).collect();
    let answers = patchbay.answers(&lines);
    let found: Vec<_> =
        lines.iter().zip(&answers).map(|(line, answer)| (*line, answer.code(), answer.message())).collect();
    assert_eq!(found, expected);
}

/// Only the command itself is stored, and nothing is sent as a message.
#[test]
fn command_names_match_exactly_without_suggestions() {
    let names = ["nope", "Skills", "SKILLS", "skill_", "skil", "skills/", "/", "reload-skills"];
    let aliases = ["Calc", "cal", "calc1", "notes", "files", "test"];
    let lines: Vec<String> = names.iter().chain(&aliases).map(|name| format!("/{name}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for (line, answer) in lines.iter().zip(Patchbay::new().answers(&lines)) {
        assert_eq!(answer.code(), "unknown_command");
        assert_eq!(answer.message(), format!("Error: unknown command '{line}'."));
        assert_eq!(answer.rows(), [("command", *line)]);
    }
}

#[test]
fn lines_that_cannot_run_say_why() {
    let no_name = "Error: command name is required after '/'.";
    let mut expected = vec![
        ("/ skills", "parse_error", no_name),
        ("/\t", "parse_error", no_name),
        ("/a\u{1b}[31mb", "unknown_command", "Error: unknown command '/a[31mb'."),
        ("/skill  ", "invalid_args", "Error: /skill requires a skill name."),
        ("/tool ", "invalid_args", "Error: /tool requires a tool's full name, such as calc__eval."),
        ("/agent", "invalid_args", "Error: /agent requires an agent name."),
        ("/help", "invalid_args", "Error: /help requires a skill name."),
        ("/skill Calc 1", "skill_not_found", "Error: skill 'Calc' not found in snapshot."),
        // An alias is not a skill's name.
        ("/skill plan", "skill_not_found", "Error: skill 'plan' not found in snapshot."),
        ("/help nope", "skill_not_found", "Error: skill 'nope' not found in snapshot."),
        ("/help calc json", "skill_not_found", "Error: skill 'calc json' not found in snapshot."),
        ("/agent ../default", "persona_not_found", "Error: agent '../default' was not found."),
    ];
    for (lines, words) in [
        (["/skills now", "/skills\tx"], "Error: /skills does not accept arguments."),
        (["/reload_skills now", "/reload_skills\tx"], "Error: /reload_skills does not accept arguments."),
        (["/commands now", "/commands\tx"], "Error: /commands does not accept arguments."),
        (["/quit now", "/quit\tx"], "Error: /quit does not accept arguments."),
    ] {
        expected.extend(lines.map(|line| (line, "invalid_args", words)));
    }
    assert_answers(&Patchbay::new(), &expected);
}

#[test]
fn white_space_is_not_an_argument() {
    let answers = Patchbay::new().answers(&["/skills  ", "/commands\t", "/reload_skills "]);
    assert!(answers.len() == 3 && answers.iter().all(|answer| answer.outcome["status"] == "ok"), "{answers:?}");
}

#[test]
fn commands_lists_built_ins_before_aliases() {
    let patchbay = Patchbay::new();
    patchbay.skill("bare", "summary: Barely", "Do it.");
    let expected = "\
/skills - List the skills of this session's snapshot
/skill NAME [INPUT] - Invoke one skill, and no other
/tool SKILL__TOOL [JSON] - Call one tool by its full name, without a model
/reload_skills - Rebuild this session's snapshot of skills
/agent NAME - Switch the active persona
/help SKILL - Show a skill's metadata, without running it
/commands - List the commands that work now
/mode [ask|edits|plan] - Show or set how far tools may go without asking\n/model MODEL[/THINKING] - Switch the model of the agent in view
/fork [--model MODEL[/THINKING]] [\"PROMPT\"] - Make a child agent that knows the conversation so far, and talk to it
/kill [UUID] - End an agent and its descendants; without a UUID, the agent in view
/agents - List the agents, what they do, their models, mail and tokens
/switch UUID|parent|root - Look at and talk to another agent
/capture - Keep the next lines as the task of a child; /fork sends them, /cancel does not
/cancel - Stop capturing without creating a child
/mail-send UUID \"TEXT\" - Send mail from the agent in view to another agent
/mail-check - List the inbox of the agent in view, unread mail first
/mail-read N - Show a mail and mark it as read
/mail-delete N - Delete a mail
/mail-filter --from UUID - List the mail of the agent in view from one sender
/retry - Send the last message again if it has no answer
/drop - Take back the last message if it has no answer
/diff [N] - Show how the last turn or command changed files, or change N
/undo [N] [--only] - Undo the file changes of the last turn or command, or of change N; --only leaves out forked agents
/rewind [N [--files|--files-only]] - List your messages, or go back to before message N: the conversation, with --files also the files, with --files-only the files alone
/history [N] - Show the last N messages and their answers
/compact [FOCUS] - Summarise the conversation now, with emphasis on FOCUS
/context - Show what fills the context window, by part, in estimated tokens
/usage - List the tokens that this session has used, by model, and what they cost
/providers [refresh] - List the model providers; refresh: ask them for their models first
/rename TITLE - Give the session a title, for lists of sessions
/quit - Leave; the session is kept
/bare - Barely
/calc <expression, such as 2^100 or 3 GiB / 100 Mbit/s> - Exact arithmetic on big numbers and units
/code JAVASCRIPT - Run JavaScript that calls tools
/grep PATTERN [GLOB] - Search the workspace's files with regular expressions
/json EXPRESSION DOCUMENT - Query and reshape JSON with JMESPath
/note add TEXT | list | search WORDS | delete NUMBER - Notes that stay: add, list, search, delete
/plan <goal to plan for> - Turns a goal into a checked plan
/web URL - Web pages as readable text";
    assert_answers(&patchbay, &[("/commands", "commands_listed", expected)]);
}

#[test]
fn quit_prints_how_to_resume() {
    let patchbay = Patchbay::new();
    let answers = patchbay.answers(&["/quit", "/skills"]);
    let session = patchbay.last_session();
    assert_eq!(answers.len(), 1, "a line ran after /quit");
    assert_eq!(answers[0].code(), "quit");
    assert_eq!(answers[0].message(), format!("The session is kept. To continue: patchbay --session {}", &session[..8]));
}

#[test]
fn alias_runs_its_skill_unless_it_is_ambiguous() {
    let patchbay = Patchbay::new();
    patchbay.skill("recall", "command: memory", "Look it up.");
    patchbay.skill("b", "command: go", "Of b.");
    patchbay.skill("a", "command: go", "Of a.");
    let answers =
        patchbay.answers(&["/calc 2^100", "/skill calc 2^100", "/go", "/go there", "/skill a", "/commands", "/memory"]);
    assert_eq!(answers[0].message(), "1267650600228229401496703205376");
    assert_eq!(
        (answers[0].code(), answers[0].message(), answers[0].data()),
        (answers[1].code(), answers[1].message(), answers[1].data())
    );
    for answer in &answers[2..4] {
        assert_eq!(answer.code(), "alias_ambiguous");
        assert_eq!(answer.message(), "Error: command alias '/go' is ambiguous in snapshot: a, b.");
    }
    assert_eq!(answers[4].rows()[0], ("skill", "Of a."));
    assert!(!answers[5].message().contains("/go"), "{}", answers[5].message());
    // No built-in command is named 'memory', so /memory is the alias of 'recall'.
    let added = "Skill 'recall' is in the conversation. Your next message is its input.";
    assert_eq!((answers[6].code(), answers[6].message()), ("skill_added", added));
}

#[test]
fn skill_without_tools_is_called_by_its_name() {
    let patchbay = Patchbay::quick();
    patchbay.skill("way", "summary: Shows the way", "Go to $INPUT.");
    patchbay.skill("calc2", "command: way2", "Two.");
    patchbay.write("workspace/.patchbay/skills/local/SKILL.md", "---\nsummary: Local\n---\nLocal.\n");
    let answers = patchbay.answers(&["/way", "/way home", "/way2", "/calc2", "/local", "/commands", "/quit"]);
    assert_eq!(answers[0].code(), "skill_added");
    assert_eq!(answers[1].rows()[0], ("skill", "Go to home."));
    assert_eq!([answers[2].rows()[0], answers[3].rows()[0]], [("skill", "Two."); 2]);
    // An untrusted workspace does not add commands.
    assert_eq!(answers[4].message(), "Error: unknown command '/local'.");
    let listed = answers[5].message();
    assert!(listed.contains("\n/way - Shows the way\n") && !listed.contains("/local"), "{listed}");
    // A skill is listed once.
    assert!(listed.contains("\n/way2") && !listed.contains("/calc2"), "{listed}");
    let workspace = patchbay.workspace();
    assert_eq!(patchbay.run(&["trust", "add", workspace.to_str().unwrap()]).code, Some(0));
    assert_eq!(patchbay.answers(&["/local"])[0].code(), "skill_added");
}

#[test]
fn built_ins_take_precedence_over_aliases() {
    let patchbay = Patchbay::new();
    patchbay.skill("thief", "command: skills", "Never.");
    let answers = patchbay.answers(&["/skills", "/skill thief"]);
    assert_eq!(answers[0].code(), "skills_listed");
    assert_eq!(answers[1].message(), "Error: skill 'thief' not found in snapshot.");
}

#[test]
fn leading_space_makes_a_message() {
    let patchbay = Patchbay::new();
    for answer in patchbay.answers(&[" /skills", "hello", "what is /skills"]) {
        let line = answer.outcome["line"].as_str().unwrap();
        let said = format!("You said: {}", line.trim());
        assert_eq!((answer.code(), answer.message()), ("answered", &*said));
        assert_eq!(answer.rows(), [("user", line), ("assistant", &*said)]);
    }
}

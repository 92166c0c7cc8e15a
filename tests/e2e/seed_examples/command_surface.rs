//! Seed 001: the command surface.

use patchbay_tests::{
    answers::{Answer, Live},
    binary::Patchbay,
};

use super::{Has, Is, Row, Table, row};

pub(super) const LINES: &[u16] = &[
    48, 54, 55, 56, 59, 69, 71, 72, 73, 87, 91, 92, 93, 94, 95, 99, 107, 111, 114, 115, 118, 122, 124, 125, 127, 129,
    139, 143, 144, 145, 146, 147, 148, 152, 153, 154, 162, 166, 167, 168, 172, 173, 174, 182, 186, 189, 190, 191, 192,
    194, 205, 211, 217, 222, 223, 224, 236, 237, 240, 253, 254, 265, 271, 282, 283, 284, 307, 308, 309, 310, 311, 312,
    313, 314, 331, 332, 333, 334, 335, 336, 337,
];

const PLAN: &str = "skill_added: Skill 'plan_compiler' is in the conversation. Your next message is its input.";

const COMMANDS: &[Row] = &[
    row(&[48], "/", Is("parse_error: Error: command name is required after '/'.")),
    row(
        &[54, 87, 91, 92, 93, 224, 331],
        "/skills",
        Has(&[
            "skills_listed: calc - Exact arithmetic",
            "\nplan_compiler - Turns a goal into a checked plan\n",
            // A skill without a summary.
            "\nrecap\n",
            "- thief [command_alias_collision] Alias '/skills' is a built-in command; skill excluded.",
        ]),
    ),
    row(&[55, 107, 118, 122, 332], "/skill plan_compiler", Is(PLAN)),
    row(&[56, 211, 217, 336], "/plan", Is(PLAN)),
    row(
        &[205],
        "command: recap",
        Is("skill_added: Skill 'recap' is in the conversation. Your next message is its input."),
    )
    .typed("/recap"),
    row(&[125, 127], "invocation_mode: tool_dispatch", Is("tool_result: 42")).typed("/skill calc 6*7"),
    row(&[69], "exactly", Is("unknown_command: Error: unknown command '/Skills'.")).typed("/Skills"),
    row(&[71], "semantic", Is("unknown_command: Error: unknown command '/list-skills'.")).typed("/list-skills"),
    row(&[72], "partial", Is("unknown_command: Error: unknown command '/kills'.")).typed("/kills"),
    row(&[73], "prefix", Is("unknown_command: Error: unknown command '/ski'.")).typed("/ski"),
    row(&[111, 114, 115, 129], "/skill <name>", Is("skill_not_found: Error: skill 'nope' not found in snapshot."))
        .typed("/skill nope 1"),
    row(&[282, 283, 284], "/skill <name>", Is("skill_not_found: Error: skill 'plan_compile' not found in snapshot."))
        .typed("/skill plan_compile"),
    row(&[222, 223], "/skills", Is("skill_not_found: Error: skill 'thief' not found in snapshot."))
        .typed("/skill thief"),
    row(&[265, 271], "/skill", Is("invalid_args: Error: /skill requires a skill name.")),
    row(&[253], "unknown command", Is("unknown_command: Error: unknown command '/nope'.")).typed("/nope"),
    row(
        &[182, 186, 189, 190, 191, 192, 335],
        "/help <skill>",
        Has(&[
            "skill_help: # /help calc\n\n- `name`: calc\n",
            "\n- `summary`: Exact arithmetic on big numbers and units\n",
            "\n- `invocation_mode`: tool_dispatch\n",
            "\n- `requires_tools`: (none)\n- `eligibility.os`: (none)\n- `eligibility.env`: (none)\n\
             - `eligibility.binaries`: (none)\n",
        ]),
    )
    .typed("/help calc")
    .reconciled(&[14]),
    row(&[307], "/think", Is("unknown_command: Error: unknown command '/think'.")),
    row(&[308], "/verbose", Is("unknown_command: Error: unknown command '/verbose'.")),
    row(&[309], "/reset", Is("unknown_command: Error: unknown command '/reset'.")),
    row(&[310], "/status", Is("unknown_command: Error: unknown command '/status'.")),
    row(&[311], "/memory", Is("unknown_command: Error: unknown command '/memory'.")),
    row(&[312], "/models", Is("unknown_command: Error: unknown command '/models'.")),
    row(&[313], "/approve", Is("unknown_command: Error: unknown command '/approve'.")),
    row(&[314], "/sessions", Is("unknown_command: Error: unknown command '/sessions'.")),
    row(&[166], "/agent <name>", Is("persona_not_found: Error: agent 'nope' was not found.")).typed("/agent nope"),
];

const MESSAGE: &[Row] =
    &[row(&[240], "no leading `/`", Has(&["answered: ", "what is /skills"])).typed("what is /skills")];

pub(super) fn run(table: &mut Table) {
    let patchbay = Patchbay::quick();
    patchbay.skill("recap", "command: recap", "Sum up.");
    patchbay.skill("thief", "command: skills", "Never.");
    patchbay.write("home/config/agents/pirate/SOUL.md", "You are a pirate.");
    let mut live = patchbay.live(&[]);
    // Until a message is sent, the only rows are those of commands and the instructions of skills.
    let answers = table.type_all(&mut live, COMMANDS, &[]);
    let kinds = |answer: &Answer| answer.rows().iter().map(|(kind, _)| (*kind).to_owned()).collect::<Vec<_>>();
    let mut all: Vec<String> = answers.iter().flat_map(kinds).collect();
    all.sort();
    all.dedup();
    table.equal(
        &[59, 236, 237, 254, 337],
        "commands reach no model",
        all,
        ["command", "skill"].map(str::to_owned).to_vec(),
    );
    let injected = answers[2].rows();
    table.has(&[124], "invocation_mode: llm_orchestration", &format!("{injected:?}"), &["(\"skill\", \""]);
    let helped = kinds(&answers[COMMANDS.iter().position(|row| row.lines.contains(&182)).unwrap()]);
    table.equal(&[194], "/help does not execute the skill", helped, vec!["command".to_owned()]);
    table.type_all(&mut live, MESSAGE, &[]);
    snapshot(&patchbay, &mut live, table);
    persona(&patchbay, &mut live, table);
}

/// `/skills` shows the snapshot until `/reload_skills` replaces it. That command changes nothing else.
fn snapshot(patchbay: &Patchbay, live: &mut Live, table: &mut Table) {
    live.answer("/model demo-big");
    live.answer("/agent pirate");
    let before = live.message("/skills");
    patchbay.skill("added", "summary: New\neligibility: {os: [linux, darwin]}", "Do it.");
    patchbay.skill("alien", "summary: Never\neligibility: {os: [plan9]}", "Do it.");
    patchbay.skill("calc", "summary: Mine", "Reckon.");
    table.equal(&[94, 95, 99], "/skills does not scan the disk", live.message("/skills"), before);
    let kept = |live: &mut Live| [state(live), persona_of(patchbay, live), model(live)];
    let unchanged = kept(live);
    let reloaded = live.answer("/reload_skills");
    table.has(
        &[139, 143, 144, 145, 146, 148, 333],
        "/reload_skills",
        &format!("{}: {}", reloaded.code(), reloaded.message()),
        &[
            "skills_reloaded: Reloaded skills for current session. version=2 count=",
            "\n+ added",
            "\n~ calc",
            "\n! alien [ineligible] OS '",
        ],
    );
    table.has(&[147], "session `skill_snapshot`", &live.message("/skills"), &["added - New\n", "calc - Mine\n"]);
    table.equal(&[152, 153, 154], "conversation, active agent, and model stay", kept(live), unchanged);
    let again = live.message("/reload_skills");
    table.has(&[148], "`snapshot_version`", &again, &["version=3 "]);
}

/// `/agent NAME` changes the persona and nothing else.
fn persona(patchbay: &Patchbay, live: &mut Live, table: &mut Table) {
    live.answer("/agent default");
    let kept = |live: &mut Live| [live.message("/skills"), state(live), model(live)];
    let unchanged = kept(live);
    let set = live.answer("/agent pirate");
    let found = format!("{}: {}", set.code(), set.message());
    table.equal(&[162, 166, 334], "/agent <name>", found, "agent_set: Active agent set to 'pirate'.".to_owned());
    let stored = persona_of(patchbay, live);
    table.has(&[167, 168], "`active_agent` with its files", &stored, &["\"name\":\"pirate\"", "You are a pirate."]);
    table.equal(&[172, 173, 174], "snapshot, history, and model stay", kept(live), unchanged);
}

/// Returns the conversation as `/history` shows it.
fn state(live: &mut Live) -> String {
    live.message("/history")
}

/// Returns the model of the agent in view.
fn model(live: &mut Live) -> String {
    live.answer("/agents").data()["agents"][0]["model"].to_string()
}

fn persona_of(patchbay: &Patchbay, live: &Live) -> String {
    let database = patchbay.database("patchbay.db");
    database.query_row("SELECT persona FROM sessions WHERE id = ?", [live.session()], |row| row.get(0)).unwrap()
}

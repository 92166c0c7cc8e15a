//! Seed 000: `/model` and `/fork`.

use patchbay_tests::binary::Patchbay;
use rusqlite::Connection;

use super::{Has, Is, Row, Table, row};

pub(super) const LINES: &[u16] = &[
    12, 16, 17, 21, 22, 23, 24, 33, 34, 35, 36, 37, 42, 43, 44, 45, 46, 47, 55, 56, 60, 61, 70, 72, 83, 84, 85, 86, 87,
    88, 89, 92, 93, 94, 95, 96, 97, 98, 101, 102, 103, 104, 105, 106, 113, 117, 118, 122, 123, 124, 125, 132, 133, 134,
    143, 149, 151, 168, 170, 176, 177, 178, 179, 180, 181, 182, 189, 191, 193, 194, 195, 196, 202, 204, 205, 211, 212,
    214, 216,
];

const KEYS: [&str; 6] =
    ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "XAI_API_KEY", "MODEL_API_KEY"];

const MODEL: &[Row] = &[
    row(&[12], "/model MODEL[/THINKING]", Has(&["commands_listed: ", "\n/model MODEL[/THINKING] - "]))
        .typed("/commands"),
    row(
        &[16, 21, 55, 56],
        "/model claude-sonnet-4-5",
        Has(&["model_set: ✓ Switched to Anthropic claude-sonnet-4-5\n", "\n  Thinking: provider default"]),
    )
    .reconciled(&[5]),
    row(
        &[17, 22],
        "/model claude-sonnet-4-5/med",
        Has(&["model_set: ✓ Switched to Anthropic claude-sonnet-4-5\n", "\n  Thinking: medium ("]),
    ),
    row(
        &[17],
        "/model claude-sonnet-4-5/low",
        Has(&["model_set: ✓ Switched to Anthropic claude-sonnet-4-5\n", "\n  Thinking: low ("]),
    ),
    row(&[16, 17, 23], "/model gpt-4o/none", Has(&["model_set: ✓ Switched to OpenAI gpt-4o ", "\n  Thinking: off"])),
    row(
        &[16, 17, 24],
        "/model gemini-2.5-pro/high",
        Has(&["model_set: ✓ Switched to Google gemini-2.5-pro\n", "\n  Thinking: high ("]),
    ),
    row(&[33, 42], "claude-", Has(&["model_set: ✓ Switched to Anthropic claude-next\n"])).typed("/model claude-next"),
    row(&[34, 43], "gpt-", Has(&["model_set: ✓ Switched to OpenAI gpt-next "])).typed("/model gpt-next"),
    row(&[34, 43], "o1", Has(&["model_set: ✓ Switched to OpenAI o1-next "])).typed("/model o1-next").reconciled(&[7]),
    row(&[34, 43], "o1, a model that ended", Has(&["model_set: ✓ Switched to OpenAI o1 "]))
        .typed("/model o1")
        .reconciled(&[7, 21]),
    row(&[34, 43], "o3", Has(&["model_set: ✓ Switched to OpenAI o3 "])).typed("/model o3").reconciled(&[7]),
    row(&[34, 43], "o4", Has(&["model_set: ✓ Switched to OpenAI o4-next "])).typed("/model o4-next").reconciled(&[7]),
    row(&[34, 43], "o3", Has(&["unknown_model: Unknown model: o3x\n"])).typed("/model o3x").reconciled(&[7]),
    row(&[35, 44], "gemini-", Has(&["model_set: ✓ Switched to Google gemini-next\n"])).typed("/model gemini-next"),
    row(&[36, 45], "grok-", Has(&["model_set: ✓ Switched to xAI grok-next "])).typed("/model grok-next"),
    row(&[37, 46], "llama-", Has(&["model_set: ✓ Switched to Meta llama-3.3-70b "]))
        .typed("/model llama-3.3-70b")
        .reconciled(&[21]),
    row(
        &[47, 189, 191, 193, 194, 195, 196],
        "/model unknown-model",
        Has(&[
            "unknown_model: Unknown model: unknown-model\n\nSupported models:\n  Anthropic: claude-",
            "\n  OpenAI:    gpt-",
            "\n  Google:    gemini-",
        ]),
    )
    .reconciled(&[20]),
    row(
        &[60, 61, 202, 204, 205],
        "/model claude-sonnet-4-5/maximum",
        Is("invalid_thinking_level: Invalid thinking level: maximum\nValid levels: none, low, med, high"),
    ),
    row(&[211], "/model claude-sonnet-4-5/med", Has(&["model_set: ✓ Switched to Anthropic claude-sonnet-4-5\n"])),
    row(
        &[212, 214, 216],
        "Hello!",
        Is("missing_credentials: No credentials for anthropic. Set ANTHROPIC_API_KEY or add to credentials.json\n\n\
            Get your API key at: https://console.anthropic.com/settings/keys"),
    ),
];

/// The suggestions for Tab, by the display name of the provider: lines and names.
const OFFERED: [(&str, &[(u16, &str)]); 3] = [
    (
        "Anthropic",
        &[
            (83, "claude-sonnet-4-5"),
            (84, "claude-sonnet-4-5/none"),
            (85, "claude-sonnet-4-5/low"),
            (86, "claude-sonnet-4-5/med"),
            (87, "claude-sonnet-4-5/high"),
            (88, "claude-opus-4-5"),
            (89, "claude-haiku-4-5"),
        ],
    ),
    (
        "OpenAI",
        &[
            (92, "gpt-4o"),
            (93, "gpt-4o/none"),
            (94, "o3"),
            (95, "o3/low"),
            (96, "o3/med"),
            (97, "o3/high"),
            (98, "o3-mini"),
        ],
    ),
    (
        "Google",
        &[
            (101, "gemini-2.5-pro"),
            (102, "gemini-2.5-pro/none"),
            (103, "gemini-2.5-pro/low"),
            (104, "gemini-2.5-pro/med"),
            (105, "gemini-2.5-pro/high"),
            (106, "gemini-2.5-flash"),
        ],
    ),
];

/// A model that the seed offers. It has been shut down, so its name is accepted but no longer offered.
const ENDED: &str = "o3-mini";

const FORK: &[Row] = &[
    row(
        &[113, 117, 118],
        "/fork [--model MODEL/THINKING] [\"prompt\"]",
        Has(&["\n/fork [--model MODEL[/THINKING]] [\"PROMPT\"] - "]),
    )
    .typed("/commands")
    .reconciled(&[1]),
    row(&[132], "provider", Has(&["model_set: "])).typed("/model demo-big/low"),
    row(&[122, 151], "/fork", Has(&["forked: Forked child ", " (demo/demo-big/low)"])),
    row(&[133], "model", Is("switched: Switched to ROOT.")).typed("/switch ROOT"),
    row(&[123], "/fork \"Investigate the bug\"", Has(&["forked: Forked child ", " (demo/demo-big/low)"]))
        .reconciled(&[1]),
    row(&[133], "model", Is("switched: Switched to ROOT.")).typed("/switch ROOT"),
    row(&[143], "--model MODEL, ended by a quote", Has(&["forked: Forked child ", " (demo/demo-1/default)"]))
        .typed("/fork --model demo-1\"Solve this\""),
    row(&[133], "model", Is("switched: Switched to ROOT.")).typed("/switch ROOT"),
    row(&[149], "an unclosed quote", Is("unclosed_quote: Error: unclosed quote in '\"Investigate'."))
        .typed("/fork \"Investigate"),
    row(&[124], "/fork --model o3-mini/high", Has(&["forked: Forked child ", " (openai/o3-mini/high)"]))
        .reconciled(&[21]),
    row(&[133], "model", Is("switched: Switched to ROOT.")).typed("/switch ROOT"),
    row(&[125], "/fork --model o3-mini/high \"Solve this\"", Has(&["forked: Forked child ", " (openai/o3-mini/high)"]))
        .reconciled(&[21]),
];

pub(super) fn run(table: &mut Table) {
    let mut patchbay = Patchbay::quick();
    KEYS.iter().for_each(|key| patchbay.set(key, ""));
    let mut live = patchbay.live(&[]);
    table.type_all(&mut live, MODEL, &[]);
    let stored = |column: &str| agents(&patchbay.database("patchbay.db"), live.session(), column);
    let [provider, model, level] = ["provider", "model", "thinking_level"].map(stored);
    let chosen = ["anthropic", "claude-sonnet-4-5", "med"].map(|text| vec![text.to_owned()]);
    table.equal(
        &[70, 72],
        "the agent's provider, model, and thinking level are stored",
        [provider, model, level],
        chosen,
    );
    for (provider, names) in OFFERED {
        for (line, name) in names {
            let answer = live.answer(&format!("/model {name}"));
            let switched = format!("✓ Switched to {provider} {}", name.split('/').next().unwrap());
            table.has(&[*line], name, answer.message(), &[&switched]);
        }
    }
    drop(live);
    #[cfg(unix)]
    tab(&patchbay, table);
    fork(&patchbay, table);
}

/// Checks the suggestions in the terminal's menu. It offers the models that are live, whatever the seed lists (reconciliation 20).
#[cfg(unix)]
fn tab(patchbay: &Patchbay, table: &mut Table) {
    use patchbay_tests::terminal::{CTRL_C, Terminal};

    let terminal = Terminal::open(patchbay, &[]);
    terminal.wait_for_prompt();
    for (line, name) in OFFERED.iter().flat_map(|(_, names)| *names) {
        // The menu offers names until they are typed in full.
        let typed = match name.split_once('/') {
            Some((model, level)) => format!("/model {model}/{}", &level[..1]),
            None if ["gpt-4o", "o3", ENDED].contains(name) => format!("/model {name}"),
            None => format!("/model {}", &name[..name.len() - 1]),
        };
        terminal.press(&typed);
        terminal.wait_for_text(&format!("> {typed}"));
        let is_offered = || terminal.lines().iter().any(|line| line.split_whitespace().next() == Some(*name));
        if *name != ENDED {
            terminal.wait_until(&format!("{name} is offered"), is_offered);
        }
        table.equal(&[*line], &format!("Tab behind {typed}"), is_offered(), *name != ENDED);
        terminal.press(CTRL_C);
        terminal.wait_for_prompt();
    }
}

fn fork(patchbay: &Patchbay, table: &mut Table) {
    let mut live = patchbay.live(&[]);
    let root = live.answer("/agents").data()["agents"][0]["agent"].as_str().unwrap().to_owned();
    let answers = table.type_all(&mut live, FORK, &[("ROOT", &root)]);
    let session = live.session().to_owned();
    // The effect of each line is stored.
    live.kill();
    let children: Vec<String> =
        answers.iter().filter_map(|answer| answer.data()["child_uuid"].as_str().map(str::to_owned)).collect();
    let database = patchbay.database("patchbay.db");
    let stored = |column: &str| agents(&database, &session, column);
    // The root is the first agent. Three children precede those with the model that was shut down.
    let of_first = |column: &str, expected: [&str; 4]| {
        (stored(column).into_iter().take(4).collect::<Vec<_>>(), expected.map(str::to_owned).to_vec())
    };
    for (lines, column, expected) in [
        (&[132, 179][..], "provider", ["demo", "demo", "demo", "demo"]),
        (&[133, 180], "model", ["demo-big", "demo-big", "demo-big", "demo-1"]),
        (&[134, 181], "thinking_level", ["low", "low", "low", ""]),
        (&[182], "status", ["running"; 4]),
    ] {
        let (found, expected) = of_first(column, expected);
        table.equal(lines, column, found, expected);
    }
    let uuids: Vec<String> = [&root].into_iter().chain(&children).cloned().collect();
    table.equal(&[176], "uuid", stored("uuid"), uuids);
    let parents = children.iter().fold(vec![String::new()], |mut parents, _| {
        parents.push(root.clone());
        parents
    });
    table.equal(&[177], "parent_uuid", stored("parent_uuid"), parents);
    let points = stored("fork_message_id");
    let last = points.iter().skip(1).map(|point| point.parse::<u64>().unwrap_or_default());
    table.equal(
        &[168, 178],
        "fork_message_id",
        last.map(|point| point > 0).collect::<Vec<_>>(),
        vec![true; children.len()],
    );
    let query = "SELECT m.content FROM messages m JOIN agents a ON a.uuid = m.agent \
                 WHERE m.session = ? AND m.kind = 'user' ORDER BY a.ordinal";
    let prompts = texts(&database, query, &session).into_iter().take(2).collect::<Vec<_>>();
    let expected = ["Investigate the bug", "Solve this"].map(str::to_owned).to_vec();
    table.equal(&[170], "an initial message for the child", prompts, expected);
}

/// Returns a column of a session's agents in order of creation, or the error if the column does not exist.
fn agents(database: &Connection, session: &str, column: &str) -> Vec<String> {
    texts(database, &format!("SELECT {column} FROM agents WHERE session = ? ORDER BY ordinal"), session)
}

fn texts(database: &Connection, query: &str, session: &str) -> Vec<String> {
    let mut query = match database.prepare(query) {
        Ok(query) => query,
        Err(error) => return vec![error.to_string()],
    };
    let text = |row: &rusqlite::Row<'_>| row.get::<_, rusqlite::types::Value>(0);
    let rows = query.query_map([session], text).unwrap().map(Result::unwrap);
    rows.map(|value| match value {
        rusqlite::types::Value::Text(text) => text,
        rusqlite::types::Value::Integer(number) => number.to_string(),
        _ => String::new(),
    })
    .collect()
}

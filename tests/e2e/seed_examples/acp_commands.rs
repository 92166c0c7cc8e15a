//! Seed 002: slash commands over ACP.

use patchbay_tests::{
    acp::{Peer, in_workspace, updates},
    binary::Patchbay,
};
use serde_json::{Value, json};

use super::Table;

pub(super) const LINES: &[u16] = &[
    18, 25, 29, 46, 52, 53, 54, 62, 68, 69, 70, 83, 90, 94, 109, 118, 125, 130, 131, 132, 139, 151, 160, 172, 184, 185,
];

const PNG: &str = "iVBORw0KGgoAAAANSUhEUg==";

/// Returns a command as a client receives it.
fn command(name: &str, description: &str, hint: Option<&str>) -> Value {
    let mut command = json!({"name": name, "description": description});
    if let Some(hint) = hint {
        command["input"] = json!({ "hint": hint });
    }
    command
}

/// Installs a skill that provides this command.
fn install(patchbay: &Patchbay, command: &Value, instructions: &str) {
    let name = command["name"].as_str().unwrap();
    let mut frontmatter = format!("summary: {}\ncommand: {name}", command["description"].as_str().unwrap());
    if let Some(hint) = command["input"]["hint"].as_str() {
        frontmatter += &format!("\ninput_hint: {hint}");
    }
    patchbay.skill(name, &frontmatter, instructions);
}

/// Returns a function that finds a command of `update` by its name; `Null` if there is none.
fn listed(update: &Value) -> impl Fn(&str) -> Value + use<> {
    let commands = update["availableCommands"].as_array().cloned().unwrap_or_default();
    move |name| commands.iter().find(|command| command["name"] == name).cloned().unwrap_or_default()
}

pub(super) fn run(table: &mut Table) {
    let patchbay = Patchbay::quick();
    let web = command("web", "Search the web for information", Some("query to search for"));
    let test = command("test", "Run tests for the current project", None);
    let plan = command("plan", "Create a detailed implementation plan", Some("description of what to plan"));
    let architect = command("architect", "Switch to architect mode for system design", None);
    let deploy = command("deploy", "Deploy changes to staging environment", None);
    install(&patchbay, &web, "Search for: $INPUT");
    [&test, &plan, &architect].iter().for_each(|command| install(&patchbay, command, "Do it."));

    let mut peer = Peer::initialized(&patchbay);
    let answer = peer.call(1, "session/new", in_workspace(&patchbay));
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    let is_list = |message: &Value| message["params"]["update"]["sessionUpdate"] == "available_commands_update";
    let update = peer.until(is_list)["params"].clone();
    table.equal(
        &[46],
        "`availableCommands`",
        (&update["sessionId"], update["update"]["availableCommands"].is_array()),
        (&json!(session), true),
    );
    let of = listed(&update["update"]);
    table.equal(&[18, 52, 53, 54, 62], "web, with `input` and `hint`", of("web"), web.clone());
    table.equal(&[25, 151], "test, without `input`", of("test"), test.clone());
    table.equal(&[29], "plan", of("plan"), plan);
    table.equal(&[172], "architect", of("architect"), architect);

    std::fs::remove_dir_all(patchbay.home().join("config/skills/architect")).unwrap();
    install(&patchbay, &deploy, "Do it.");
    let of = listed(&reload(&mut peer, 2, &session));
    table.equal(&[68, 94, 184], "deploy is added", of("deploy"), deploy);
    table.equal(&[69], "architect is removed", of("architect"), Value::Null);
    table.equal(&[83], "web", of("web"), web);
    table.equal(&[90], "test", of("test"), test);

    let web = command("web", "Search the web for information", Some("search query"));
    let plan = command("plan", "Create a detailed implementation plan", Some("what to plan"));
    install(&patchbay, &web, "Search for: $INPUT");
    install(&patchbay, &plan, "Do it.");
    let of = listed(&reload(&mut peer, 3, &session));
    table.equal(&[70, 139], "web is modified", of("web"), web);
    table.equal(&[70, 160], "plan is modified", of("plan"), plan);

    let text = |text: &str| json!({"type": "text", "text": text});
    let said = peer.say(4, &session, json!([text("/web agent client protocol")]));
    table.has(&[109, 118, 130, 131], "/web agent client protocol", &said, &["Search for: agent client protocol"]);
    let said = peer.say(5, &session, json!([text("/web rust async programming")]));
    table.has(&[132], "/web rust async programming", &said, &["Search for: rust async programming"]);
    // A command next to other content: a skill receives the content, while a built-in command says that it was ignored.
    let image = json!({"type": "image", "mimeType": "image/png", "data": PNG});
    let said = peer.say(6, &session, json!([image, text("/web with an image")]));
    table.has(&[125], "a skill command with an image", &said, &["Search for: with an image"]);
    let said = peer.say(7, &session, json!([text("/skills"), image]));
    table.has(
        &[125],
        "a built-in command with an image",
        &said,
        &[
            "/skills does not accept attachments; 'image' was not used.",
            "deploy - Deploy changes to staging \
            environment",
        ],
    );
    let said = peer.say(8, &session, json!([text("/nope")]));
    table.equal(&[185], "an unknown command", said, "Error: unknown command '/nope'.".to_owned());
    assert_eq!(peer.leave(), Some(0));
}

/// Sends `/reload_skills` and returns the last update of the available commands; `Null` if there is none.
fn reload(peer: &mut Peer, id: i64, session: &str) -> Value {
    peer.take();
    assert_eq!(peer.prompt(id, session, "/reload_skills"), "end_turn");
    let seen = peer.take();
    updates(&seen, "available_commands_update").last().map(|update| (*update).clone()).unwrap_or_default()
}

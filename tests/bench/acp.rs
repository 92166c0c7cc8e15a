//! Measures `patchbay acp`: the protocol's overhead for a command, and a long list of commands.

use std::{fmt::Write as _, time::Instant};

use patchbay_core::Code;
use patchbay_provider::Settings;
use patchbay_tests::{
    acp::{Peer, in_workspace, prompt},
    binary::Patchbay,
    guest::Guest,
    host::host,
};
use serde_json::Value;

use crate::{
    nanoseconds,
    report::{Report, Samples, ms, us},
};

const TIMES: usize = 500;
const COMMANDS: usize = 1_000;
const LISTS: usize = 20;

pub fn measure(report: &mut Report) {
    report.section(
        "An editor",
        "A command of a skill (`tool_dispatch`): from the prompt that a client writes to the first update that it reads, and \
         the same command in the process of a host. The two are measured alternately; the difference is the protocol, the \
         pipe, and the event of the line. Microseconds.",
    );
    command(report);
    report.text_block("The list of 1,000 commands, from `session/new` to the update. Milliseconds.");
    list(report);
}

fn command(report: &mut Report) {
    let (of_client, in_process) = (Patchbay::quick(), Patchbay::quick());
    for patchbay in [&of_client, &in_process] {
        patchbay.add_command("echo", &Guest::default(), "");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let host = host(&in_process, Settings::default());
    let session = runtime.block_on(host.new_session(&in_process.workspace())).unwrap();
    let mut peer = Peer::initialized(&of_client);
    let id = peer.session(&of_client, 1);
    let (mut there, mut here) = (Vec::new(), Vec::new());
    for time in 0..TIMES {
        let start = Instant::now();
        peer.request(i64::try_from(time).unwrap() + 2, "session/prompt", prompt(&id, "/echo {}"));
        peer.until(is_update);
        there.push(nanoseconds(start));
        peer.answer();
        peer.take();
        let start = Instant::now();
        let outcome = runtime.block_on(async { session.submit("/echo {}").await });
        assert_eq!(outcome.code, Code::ToolResult);
        here.push(nanoseconds(start));
    }
    let (there, here) = (Samples::new(there), Samples::new(here));
    let row = |name: &str, value: &dyn Fn(&Samples, usize) -> String, samples: &Samples| {
        vec![name.to_owned(), value(samples, 50), value(samples, 99)]
    };
    let value = |samples: &Samples, percent| us(samples.percentile(percent));
    let share = |samples: &Samples, percent| us(samples.percentile(percent).saturating_sub(here.percentile(percent)));
    report.table(
        &["", "p50", "p99"],
        &[
            row("`patchbay acp`, prompt to first update", &value, &there),
            row("in the process", &value, &here),
            row("difference", &share, &there),
        ],
    );
    eprintln!("acp: {TIMES} commands each way");
    runtime.block_on(session.close());
    assert_eq!(peer.leave(), Some(0));
}

fn is_update(message: &Value) -> bool {
    message["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
}

fn list(report: &mut Report) {
    let patchbay = Patchbay::quick();
    for number in 0..COMMANDS {
        let mut frontmatter = format!("name: skill-{number}\ncommand: command-{number}\n");
        write!(frontmatter, "summary: Does what command number {number} does\ninput_hint: what to do").unwrap();
        patchbay.skill(&format!("skill-{number}"), &frontmatter, "Do it: $INPUT");
    }
    let mut peer = Peer::initialized(&patchbay);
    let (mut times, mut bytes, mut commands) = (Vec::new(), 0, 0);
    for number in 0..LISTS {
        let start = Instant::now();
        peer.request(i64::try_from(number).unwrap() + 1, "session/new", in_workspace(&patchbay));
        let update = peer.until(|message| message["params"]["update"]["sessionUpdate"] == "available_commands_update");
        times.push(nanoseconds(start));
        bytes = update.to_string().len();
        commands = update["params"]["update"]["availableCommands"].as_array().map_or(0, Vec::len);
        peer.take();
    }
    assert!(commands >= COMMANDS, "{commands} commands");
    let times = Samples::new(times);
    let row =
        vec![commands.to_string(), format!("{} KiB", bytes >> 10), ms(times.percentile(50)), ms(times.percentile(99))];
    report.table(&["commands", "size", "p50", "p99"], &[row]);
    eprintln!("acp: {LISTS} lists of {commands} commands");
    assert_eq!(peer.leave(), Some(0));
}

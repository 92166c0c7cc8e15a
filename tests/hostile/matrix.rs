//! Each caller with each kind of effect, in each mode, granted or not, with a person or without. What is expected is written by hand
//! for each effect; the test enumerates the rest, for which it must be the same.

use std::fs;

use patchbay_core::{AgentId, Asker, PrincipalId};
use patchbay_tests::calls::relaying;
use patchbay_tools::{Approval, Mode};
use serde_json::json;

use crate::approvals::{Host, IMPORT_PUT, IMPORT_WRITE, PUT, WRITE_NOTES, approvals, grant, keeper};

const WRITE_MAKEFILE: &str = "(call $use (i32.const 340) (i32.const 8) (i32.const 300) (i32.const 4) (i32.const 512))";
const DELETE_NOTES: &str = "(call $use (i32.const 320) (i32.const 8) (i32.const 512))";
const IMPORT_DELETE: &str =
    "\n(import \"patchbay:host/workspace-write@0.1.0\" \"delete\" (func $use (param i32 i32 i32)))\n";

/// What becomes of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Runs,
    Asks,
    Denied,
}

use Fate::{Asks, Denied, Runs};

/// An effect, and its fates in the modes ask, edits and plan.
struct Row {
    effect: &'static str,
    capability: &'static str,
    function: &'static str,
    import: &'static str,
    not_granted: [Fate; 3],
    granted: [Fate; 3],
}

#[rustfmt::skip]
const TABLE: [Row; 4] = [
    Row { effect: "store a key", capability: "kv", function: PUT, import: IMPORT_PUT,
        not_granted: [Asks, Asks, Denied], granted: [Runs, Runs, Denied] },
    Row { effect: "write a file", capability: "workspace-write", function: WRITE_NOTES, import: IMPORT_WRITE,
        not_granted: [Asks, Runs, Denied], granted: [Runs, Runs, Denied] },
    Row { effect: "write a file that starts programs", capability: "workspace-write", function: WRITE_MAKEFILE, import: IMPORT_WRITE,
        not_granted: [Asks, Asks, Denied], granted: [Runs, Runs, Denied] },
    Row { effect: "delete a file", capability: "workspace-delete", function: DELETE_NOTES, import: IMPORT_DELETE,
        not_granted: [Asks, Asks, Denied], granted: [Runs, Runs, Denied] },
];

#[tokio::test]
async fn each_caller_each_effect_each_mode() {
    let agent = |byte| Asker::Agent(AgentId::from_bytes([byte; 16]));
    let callers = [
        ("a person", Asker::Person(PrincipalId::LOCAL), "keeper__run"),
        ("a model", agent(1), "keeper__run"),
        ("a child's model", agent(2), "keeper__run"),
        ("a tool that a model called", agent(1), "relay__run"),
        ("an MCP client", Asker::mcp_client("c"), "keeper__run"),
    ];
    let mut seen = 0;
    for row in &TABLE {
        let relay = relaying("keeper__run", "{}").packaged("---\ncapabilities: [{name: tools}]\n---\n");
        let skills = [("keeper", keeper(row.capability, row.function, row.import)), ("relay", relay)];
        let mut host = Host::with(skills).await;
        let _workspace = host.leave_home();
        let add = async |skill: &str, capability| {
            let digest = host.snapshot.skill(skill).unwrap().digest;
            host.store.add_grant(grant(skill.to_owned(), capability, digest), String::new()).await.unwrap();
        };
        add("relay", "tools").await;
        for (granted, fates) in [(false, row.not_granted), (true, row.granted)] {
            if granted {
                add("keeper", row.capability).await;
            }
            for (mode, fate) in Mode::ALL.into_iter().zip(fates) {
                for (name, caller, tool) in &callers {
                    for has_person in [true, false] {
                        fs::write(host.workspace.join("notes.md"), "x").unwrap();
                        host.mode.set(mode);
                        let (person, yes) = approvals(Approval::Once);
                        let asks = has_person.then_some(&yes);
                        let answer = host.call_by(caller.clone(), tool, &json!({}), asks).await;
                        let asked = !person.asked.lock().unwrap().is_empty();
                        let expected = if fate == Asks && !has_person { Denied } else { fate };
                        let found = match (answer.is_ok(), asked) {
                            (true, false) => Runs,
                            (true, true) => Asks,
                            (false, _) => Denied,
                        };
                        let case = format!("{}: {name}, {mode}, granted {granted}, a person {has_person}", row.effect);
                        assert_eq!(found, expected, "{case}: {answer:?}");
                        assert!(expected != Denied || !asked, "{case}: asked in vain");
                        seen += 1;
                    }
                }
            }
        }
    }
    assert_eq!(seen, 4 * 2 * 3 * 5 * 2);
}

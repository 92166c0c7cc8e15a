//! Every caller with each effect of the table, in each mode, granted or not, for a skill of the user, of a trusted workspace and of
//! an untrusted one, with a user who can be asked and without. The expected fates of each effect are written by hand in the table;
//! the test enumerates all other dimensions. They must not change the fates, except that an effect that would be asked about is
//! denied if nobody can be asked.

use std::fs;

use patchbay_core::{AgentId, Asker, Code, PrincipalId};
use patchbay_policy::Root;
use patchbay_sandbox::Failure;
use patchbay_store::GrantRow;
use patchbay_tests::calls::{relaying, requesting};
use patchbay_tools::{Approval, Mode, ToolError};
use serde_json::json;

use crate::approvals::{Host, IMPORT_PUT, IMPORT_WRITE, PUT, WRITE_NOTES, approvals, grant, keeper};

const WRITE_MAKEFILE: &str = "(call $use (i32.const 340) (i32.const 8) (i32.const 300) (i32.const 4) (i32.const 512))";
const DELETE_NOTES: &str = "(call $use (i32.const 320) (i32.const 8) (i32.const 512))";
const IMPORT_DELETE: &str =
    "\n(import \"patchbay:host/workspace-write@0.1.0\" \"delete\" (func $use (param i32 i32 i32)))\n";
/// Nothing listens on this port, so a request that is allowed fails, but is not denied.
const CLOSED_PORT: &str = "http:127.0.0.1:9";

/// The fate of an effect.
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
    skill: fn(&'static str) -> Vec<u8>,
    not_granted: [Fate; 3],
    /// The fates without a grant, for a skill of an untrusted workspace.
    untrusted: [Fate; 3],
    /// The fates with a grant for exactly these files of the skill, wherever it is from: the user, a trusted workspace or an
    /// untrusted one.
    granted: [Fate; 3],
}

fn request(capability: &str, method: &str) -> Vec<u8> {
    let manifest = format!("---\ncapabilities: [{{name: \"{capability}\"}}]\n---\n");
    requesting(method, "http://127.0.0.1:9/", None, "").packaged(&manifest)
}

#[rustfmt::skip]
const TABLE: [Row; 7] = [
    Row { effect: "store a key", capability: "kv", skill: |kv| keeper(kv, PUT, IMPORT_PUT),
        not_granted: [Asks, Asks, Denied], untrusted: [Denied, Denied, Denied], granted: [Runs, Runs, Denied] },
    Row { effect: "write a file", capability: "workspace-write", skill: |write| keeper(write, WRITE_NOTES, IMPORT_WRITE),
        not_granted: [Asks, Runs, Denied], untrusted: [Denied, Denied, Denied], granted: [Runs, Runs, Denied] },
    Row { effect: "write a file that starts programs", capability: "workspace-write", skill: |write| keeper(write, WRITE_MAKEFILE, IMPORT_WRITE),
        not_granted: [Asks, Asks, Denied], untrusted: [Denied, Denied, Denied], granted: [Runs, Runs, Denied] },
    Row { effect: "delete a file", capability: "workspace-delete", skill: |delete| keeper(delete, DELETE_NOTES, IMPORT_DELETE),
        not_granted: [Asks, Asks, Denied], untrusted: [Denied, Denied, Denied], granted: [Runs, Runs, Denied] },
    Row { effect: "read a page", capability: CLOSED_PORT, skill: |http| request(http, "GET"),
        not_granted: [Asks, Asks, Denied], untrusted: [Denied, Denied, Denied], granted: [Runs, Runs, Runs] },
    Row { effect: "send a request", capability: CLOSED_PORT, skill: |http| request(http, "POST"),
        not_granted: [Asks, Asks, Denied], untrusted: [Denied, Denied, Denied], granted: [Runs, Runs, Denied] },
    Row { effect: "call another tool", capability: "tools",
        skill: |_| relaying("pure__run", "{}").packaged("---\ncapabilities: [{name: tools}]\n---\n"),
        not_granted: [Asks, Asks, Asks], untrusted: [Denied, Denied, Denied], granted: [Runs, Runs, Runs] },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    User,
    TrustedWorkspace,
    UntrustedWorkspace,
}

/// Returns whether `error` is a denial. A relaying tool passes a denial on as its own error.
fn is_denial(error: &ToolError) -> bool {
    let passed_on = |failure: &Failure| matches!(failure, Failure::Failed { kind, .. } if kind == "denied");
    error.code() == Code::Denied || matches!(error, ToolError::Failure { failure, .. } if passed_on(failure))
}

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
    for (row, home) in TABLE
        .iter()
        .flat_map(|row| [Home::User, Home::TrustedWorkspace, Home::UntrustedWorkspace].map(|home| (row, home)))
    {
        let root = if home == Home::User { Root::User } else { Root::Workspace };
        let relay = relaying("keeper__run", "{}").packaged("---\ncapabilities: [{name: tools}]\n---\n");
        let pure = keeper("kv", "", IMPORT_PUT);
        let skills =
            [(root, "keeper", (row.skill)(row.capability)), (Root::User, "relay", relay), (Root::User, "pure", pure)];
        let mut host = Host::with_roots(skills).await;
        let _workspace = host.leave_home();
        let workspace = host.workspace.to_str().unwrap().to_owned();
        if home == Home::TrustedWorkspace {
            host.store.set_trust(workspace.clone(), true).await.unwrap();
        }
        let add = async |skill: &str, capability| {
            let digest = host.snapshot.skill(skill).unwrap().digest;
            let mut grant = grant(skill.to_owned(), capability, digest);
            if root != Root::User && skill == "keeper" {
                grant = GrantRow { root: root.as_str().to_owned(), workspace: workspace.clone(), ..grant };
            }
            host.store.add_grant(grant, String::new()).await.unwrap();
        };
        add("relay", "tools").await;
        let not_granted = if home == Home::UntrustedWorkspace { row.untrusted } else { row.not_granted };
        for (granted, fates) in [(false, not_granted), (true, row.granted)] {
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
                        let is_denied = answer.as_ref().is_err_and(is_denial);
                        let found = match (is_denied, asked) {
                            (false, false) => Runs,
                            (false, true) => Asks,
                            (true, _) => Denied,
                        };
                        let case = format!(
                            "{}: {home:?}, {name}, {mode}, granted {granted}, a person {has_person}",
                            row.effect
                        );
                        assert_eq!(found, expected, "{case}: {answer:?}");
                        assert!(expected != Denied || !asked, "{case}: asked in vain");
                        assert!(is_denied || answer.is_ok() || row.capability == CLOSED_PORT, "{case}: {answer:?}");
                        seen += 1;
                    }
                }
            }
        }
    }
    assert_eq!(seen, 7 * 3 * 2 * 3 * 5 * 2);
}

//! Any calls of the host functions, with any arguments, limits and grants, as one guest could make them. Runs no
//! component.
#![no_main]

#[path = "host_functions/ask.rs"]
mod ask;
#[path = "host_functions/files.rs"]
mod files;
#[path = "host_functions/host.rs"]
mod host;

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use patchbay_core::text;
use patchbay_policy::{Capability, Grant, Identity, Permits, Root};
use patchbay_sandbox::{
    Failure, Limits, LocalFiles, Services, WorkspaceAccess,
    fuzzing::{Ask, FuzzGuest, HostReply},
};
use tokio::runtime::Runtime;

use crate::{ask::AnyAsk, files::Files, host::Host};

/// The permits and limits of a guest, and its calls.
#[derive(Arbitrary, Debug)]
struct Life {
    /// Whether the guest is being asked for its tools, in which case it has no permits.
    described: bool,
    /// Which of [`CAPABILITIES`] its manifest requests, and which of these are granted.
    asked: u8,
    granted: u8,
    host_calls: u8,
    output_bytes: u8,
    log_lines: u8,
    log_bytes: u8,
    asks: Vec<AnyAsk>,
}

const CAPABILITIES: &[&str] = &[
    "kv",
    "workspace-read",
    "workspace-write",
    "workspace-delete",
    "inference",
    "tools",
    "http:a.example",
    "http:*.b.example:8443",
];

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().max_blocking_threads(1).build().expect("a runtime")
});

fuzz_target!(|life: Life| RUNTIME.block_on(live(life)));

async fn live(life: Life) {
    let limits = Limits {
        host_calls: life.host_calls.into(),
        output_bytes: life.output_bytes.into(),
        log_lines: life.log_lines.into(),
        log_bytes: life.log_bytes.into(),
        ..Limits::default()
    };
    let chosen = |bits: u8| {
        let of = move |(place, text): (usize, &&str)| (bits >> place & 1 == 1).then(|| text.parse().expect("one"));
        CAPABILITIES.iter().enumerate().filter_map(of).collect::<Vec<Capability>>()
    };
    let asked = if life.described { Vec::new() } else { chosen(life.asked) };
    let works = if life.described { Vec::new() } else { chosen(life.asked & life.granted) };
    let grants = chosen(life.granted).into_iter().map(Grant::holding).collect();
    let identity = Identity::new(Root::User, "", "test".parse().expect("a name"));
    let permits = Arc::new(Permits::new(identity, asked, grants));

    let mut files = Files::lend();
    let host = Arc::new(Host::new(works.clone()));
    let mut guest = if life.described {
        FuzzGuest::described(limits.clone())
    } else {
        let services = Services {
            kv: host.clone(),
            http: host.clone(),
            call: host.clone(),
            tools: host.clone(),
            skill_files: None,
            workspace: Arc::new(LocalFiles::new(WorkspaceAccess { root: files.root(), ..WorkspaceAccess::default() })),
            written: Arc::default(),
            inference: None,
            permit_source: None,
            gate: None,
            fixed: None,
            progress: host.clone(),
            log: host.clone(),
        };
        FuzzGuest::called(limits.clone(), permits, services)
    };
    let mut spent = Spent::default();
    for ask in life.asks {
        let ask = ask.into_ask();
        let heard = host.heard();
        host.expect_left(
            limits.host_calls.saturating_sub(spent.host_calls + 1),
            limits.output_bytes - spent.output_bytes,
        );
        let answer = guest.ask(ask.clone()).await;
        spent.add(&ask);
        let nested = host.take_nested();
        match answer {
            Ok(answer) => {
                spent.host_calls += nested.0;
                spent.output_bytes += nested.1;
                assert!(spent.over(&limits).is_none(), "{ask:?} goes over a limit, and is answered");
                judge(&ask, answer, &works, &host, heard, &mut files, life.described);
            }
            Err(failure) => {
                assert_eq!(Some(failure), spent.over(&limits), "{ask:?} stops the guest by the limit that it is over");
                assert_eq!(host.heard(), heard, "a call over a limit reaches no service");
                break;
            }
        }
    }
    files.check();
}

/// The usage so far, counted independently.
#[derive(Default)]
struct Spent {
    host_calls: u32,
    output_bytes: usize,
    log_lines: u32,
    log_bytes: usize,
}

impl Spent {
    fn add(&mut self, ask: &Ask) {
        self.host_calls += 1;
        match ask {
            Ask::LogWrite(_, message) => {
                self.log_lines += 1;
                self.log_bytes += message.len();
            }
            Ask::ProgressReport(text) => self.output_bytes += text.len(),
            _ => {}
        }
    }

    fn over(&self, limits: &Limits) -> Option<Failure> {
        if self.host_calls > limits.host_calls {
            return Some(Failure::HostCalls { limit: limits.host_calls });
        }
        if self.log_lines > limits.log_lines || self.log_bytes > limits.log_bytes {
            return Some(Failure::Log { lines: limits.log_lines, bytes: limits.log_bytes });
        }
        (self.output_bytes > limits.output_bytes).then_some(Failure::Output { limit: limits.output_bytes })
    }
}

/// The error kinds of the contract.
const KINDS: &[&str] = &[
    "denied",
    "unavailable",
    "invalid",
    "not-found",
    "too-large",
    "too-deep",
    "quota",
    "timeout",
    "conflict",
    "failed",
];

/// Returns why a result violates the contract or the grants, if it does.
fn judge(
    ask: &Ask,
    answer: Result<HostReply, patchbay_sandbox::fuzzing::Error>,
    works: &[Capability],
    host: &Host,
    heard: usize,
    files: &mut Files,
    described: bool,
) {
    let needed = match ask {
        Ask::LogWrite(..) | Ask::ProgressReport(..) => None,
        Ask::KvGet(..) | Ask::KvPut(..) | Ask::KvDelete(..) | Ask::KvKeys(..) => Some(Capability::Kv),
        Ask::WorkspaceRead(..) | Ask::WorkspaceWalk(..) => Some(Capability::WorkspaceRead),
        Ask::WorkspaceWrite(..) => Some(Capability::WorkspaceWrite),
        Ask::WorkspaceDelete(..) => Some(Capability::WorkspaceDelete),
        Ask::InferenceComplete(..) => Some(Capability::Inference),
        Ask::ToolsCall(..) => Some(Capability::Tools),
        // Checked where the request would be sent; see `Host`.
        Ask::HttpSend(_) => None,
    };
    let permitted = needed.as_ref().is_none_or(|capability| works.contains(capability));
    match &answer {
        Ok(_) => assert!(permitted, "{ask:?} is answered without {needed:?}"),
        Err(error) => {
            assert!(KINDS.contains(&error.kind.as_str()), "{error:?}");
            assert_eq!(error.message, text::clean(&error.message), "what is told is clean");
            files.not_named_in(&error.message, ask);
        }
    }
    if !permitted {
        let error = answer.as_ref().expect_err("denied");
        assert_eq!(error.kind, "denied");
        assert!(described || error.message.contains(&needed.expect("one").to_string()), "{error:?}");
        assert_eq!(host.heard(), heard, "a denied call reaches no service");
        return;
    }
    let spoken = matches!(ask, Ask::LogWrite(..) | Ask::ProgressReport(..)) && !described;
    assert!(!spoken || host.heard() == heard + 1, "what is said is heard once");
    match (ask, answer) {
        (Ask::KvGet(scope, key), Ok(HostReply::Entry(found))) => host.has(*scope, key, found),
        (Ask::HttpSend(request), Ok(HostReply::Response(response))) => {
            assert!(!described);
            assert_eq!(response.body, request.url.as_bytes());
        }
        (Ask::InferenceComplete(..), answer) => assert_eq!(answer.expect_err("not wired").kind, "unavailable"),
        (Ask::WorkspaceRead(path, offset, max), Ok(HostReply::Bytes(bytes))) => {
            files.was_read(path, *offset, *max, &bytes)
        }
        (Ask::WorkspaceWalk(_, after, limit), Ok(HostReply::Listing(entries))) => {
            files.were_listed(after.as_deref(), *limit, &entries);
        }
        (Ask::WorkspaceWrite(path, contents), Ok(_)) => files.was_written(path, contents),
        (Ask::WorkspaceDelete(path), Ok(_)) => files.was_deleted(path),
        _ => {}
    }
}

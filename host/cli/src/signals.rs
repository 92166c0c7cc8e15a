//! Signals that ask the process to end: SIGINT, SIGTERM and SIGHUP. `main`, `mcp` and `terminal` call it.

use std::{
    fs,
    future::poll_fn,
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::Poll,
    thread,
    time::Duration,
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::FAILED;

/// How long cancelled turns may take to store their partial answers, and a front to display them.
pub(crate) const SETTLING: Duration = Duration::from_secs(2);
/// How long a command may take to end after a signal. Longer than [`SETTLING`].
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// The first signal that asks the process to end.
#[derive(Clone, Default)]
pub(crate) struct EndSignal {
    received: CancellationToken,
    /// The exit code of the signal.
    code: Arc<AtomicU8>,
}

impl EndSignal {
    /// Starts a thread that waits for a signal. The thread ends the process at a second signal, or if the process still runs
    /// `grace` after the first one, because a terminal that does not read may block the runtime. SIGINT only counts if
    /// `on_interrupt` is set. A signal that was ignored when the process started stays ignored.
    pub(crate) fn watch(on_interrupt: bool, grace: Duration) -> Self {
        let ended = Self::default();
        // Without a handler, a signal ends the process immediately.
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return ended };
        let interrupt = on_interrupt.then(SignalKind::interrupt);
        let kinds = interrupt.into_iter().chain([SignalKind::terminate(), SignalKind::hangup()]);
        let mut signals = {
            let _entered = runtime.enter();
            listen(kinds.filter(|kind| !is_ignored(*kind)))
        };
        let signal = ended.clone();
        thread::spawn(move || {
            let code = runtime.block_on(async {
                let code = exit_code(next(&mut signals).await);
                signal.code.store(code, Ordering::Relaxed);
                signal.received.cancel();
                let _ = timeout(grace, next(&mut signals)).await;
                code
            });
            end(code);
        });
        ended
    }

    /// Waits for the signal. Returns its exit code: 128 plus its number, as a shell reports it.
    pub(crate) async fn received(&self) -> u8 {
        self.received.cancelled().await;
        self.code.load(Ordering::Relaxed)
    }
}

/// Restores the modes of the terminal, kills the programs that were started, and ends the process.
pub(crate) fn end(code: u8) -> ! {
    patchbay_repl::restore_modes();
    patchbay_egress::kill_process_groups();
    std::process::exit(code.into())
}

/// Cancels `stopped` at the first SIGINT, SIGTERM or SIGHUP. A client that started this process ends it with SIGTERM. Without
/// `on_hangup`, a SIGHUP that was ignored when the process started stays ignored.
///
/// # Panics
/// Outside of a Tokio runtime.
pub(crate) fn cancel_on_signal(stopped: CancellationToken, on_hangup: bool) {
    let hangup = Some(SignalKind::hangup()).filter(|kind| on_hangup || !is_ignored(*kind));
    let mut signals = listen([SignalKind::interrupt(), SignalKind::terminate()].into_iter().chain(hangup));
    tokio::spawn(async move {
        next(&mut signals).await;
        stopped.cancel();
    });
}

/// Installs handlers for signals. A signal whose handler cannot be installed ends the process.
fn listen(kinds: impl Iterator<Item = SignalKind>) -> Vec<(SignalKind, Signal)> {
    kinds.filter_map(|kind| Some((kind, signal(kind).ok()?))).collect()
}

/// Waits until a handled signal arrives.
async fn next(signals: &mut [(SignalKind, Signal)]) -> SignalKind {
    poll_fn(|context| {
        let received =
            signals.iter_mut().find_map(|(kind, signal)| signal.poll_recv(context).is_ready().then_some(*kind));
        received.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

fn exit_code(kind: SignalKind) -> u8 {
    u8::try_from(128 + kind.as_raw_value()).unwrap_or(FAILED)
}

/// Returns whether a signal was ignored when the process started. For example, `nohup` ignores SIGHUP, and a script ignores SIGINT
/// for a program that it starts in the background. If neither `/proc` nor a child shows it, SIGHUP counts as ignored. Must be
/// called before the signal is handled.
fn is_ignored(kind: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_in(&status, kind).or_else(|| ignored_by_child(kind)).unwrap_or(kind == SignalKind::hangup())
}

/// Returns whether a child that sends itself the signal survives it, because children inherit which signals are ignored. For
/// systems without `/proc`, such as macOS.
fn ignored_by_child(kind: SignalKind) -> Option<bool> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("kill -{} $$", kind.as_raw_value())]).env_clear();
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = shell.status().ok()?;
    match status.signal() {
        None => status.success().then_some(true),
        Some(signal) => (signal == kind.as_raw_value()).then_some(false),
    }
}

/// Returns whether a signal is ignored according to the text of `/proc/PID/status`.
fn ignored_in(status: &str, kind: SignalKind) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some((mask >> (kind.as_raw_value() - 1)) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let kinds = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()];
        let ignored = |status: &str| kinds.map(|kind| ignored_in(status, kind));
        assert_eq!(
            ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\tff\n"),
            [Some(true), Some(false), Some(false)]
        );
        assert_eq!(ignored("SigIgn:\t0000000000004002\n"), [Some(false), Some(true), Some(true)]);
        assert_eq!(ignored(""), [None; 3]);
    }

    /// Ignored signals cannot be set without unsafe code, so a shell sets them for a child that runs this test again.
    #[test]
    fn child_shows_which_signals_are_ignored() {
        const INNER: &str = "PATCHBAY_TEST_IGNORED";
        const NAME: &str = "signals::tests::child_shows_which_signals_are_ignored";
        match std::env::var(INNER) {
            Ok(ignored) => {
                for kind in [SignalKind::hangup(), SignalKind::terminate()] {
                    let expected = ignored.contains(&format!("{},", kind.as_raw_value()));
                    assert_eq!(ignored_by_child(kind), Some(expected), "{kind:?} of {ignored}");
                    if cfg!(target_os = "linux") {
                        assert_eq!(is_ignored(kind), expected, "{kind:?} of {ignored}");
                    }
                }
            }
            Err(_) => {
                // A test run under nohup inherits an ignored SIGHUP, which no shell can reset.
                let kinds = [SignalKind::hangup(), SignalKind::terminate()];
                let inherited: String = kinds
                    .into_iter()
                    .filter(|kind| is_ignored(*kind))
                    .map(|kind| format!("{},", kind.as_raw_value()))
                    .collect();
                for ignored in ["", "1,", "1,15,"] {
                    let expected = format!("{inherited}{ignored}");
                    let traps = ignored.replace(',', " ");
                    let trap = if traps.is_empty() { String::new() } else { format!("trap '' {traps}; ") };
                    let mut shell = Command::new("/bin/sh");
                    shell.arg("-c").arg(format!("{trap}exec \"$0\" --exact {NAME}"));
                    shell.arg(std::env::current_exe().unwrap()).env(INNER, expected).stdout(Stdio::null());
                    assert!(shell.status().unwrap().success(), "{ignored}");
                }
            }
        }
    }

    #[test]
    fn exit_codes_are_those_of_shells() {
        let kinds = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()];
        assert_eq!(kinds.map(exit_code), [129, 130, 143]);
    }
}

//! Finds out which parts of a fence this machine has: they are tried in a child process, not guessed from versions.

use crate::{
    order::{FenceOrder, Order},
    running::{CageProgram, RunningProgram},
    support::{Isolation, Support},
};

impl Support {
    /// Returns the parts that this machine has. Runs up to three child processes, which only build a fence and exit.
    pub async fn probe(child: &CageProgram) -> Self {
        let (landlock, seccomp) = available();
        let mut support = Self { landlock, seccomp, isolation: Isolation::None };
        if !cfg!(target_os = "linux") {
            return support;
        }
        for isolation in [Isolation::Processes, Isolation::Mounts, Isolation::None] {
            support.isolation = isolation;
            if builds(child, support).await {
                return support;
            }
        }
        Self::default()
    }
}

/// Returns the version of Landlock, and whether there is seccomp.
fn available() -> (u32, bool) {
    #[cfg(target_os = "linux")]
    return crate::linux::available();
    #[cfg(not(target_os = "linux"))]
    (0, false)
}

/// Whether a child can build this fence.
async fn builds(child: &CageProgram, support: Support) -> bool {
    let fence = FenceOrder {
        support,
        read: vec!["/".into()],
        write: Vec::new(),
        read_only: Vec::new(),
        fixed: Vec::new(),
        network: false,
    };
    let order = Order {
        program: String::new(),
        arguments: Vec::new(),
        folder: "/".into(),
        environment: Vec::new(),
        fence: Some(fence),
    };
    match RunningProgram::start(child, &order) {
        Ok(running) => running.ended().await.failed.is_none(),
        Err(_) => false,
    }
}

//! `patchbay:host/call`: the running call. Its id and its remaining limits differ between two runs, which is why a deterministic
//! call can read neither.

use std::sync::Arc;

use patchbay_core::text;

use super::HostResult;
use crate::{
    bindings::{
        patchbay::host::types::Error as WitError,
        unlisted::patchbay::host::call::{self, CallInfo},
    },
    state::{CallAccess, GuestState},
};

/// The identity of a call, as its skill sees it.
pub trait CallIdentity: Send + Sync {
    /// Returns an id that no other call has, and that reveals nothing about the session. If a later version repeats calls, all
    /// attempts at a call must have the same id.
    fn call_id(&self) -> String;
}

impl GuestState {
    /// Counts the host call and returns the access, or the error for a call that is deterministic.
    fn call_access(&mut self) -> HostResult<Arc<CallAccess>> {
        self.count_host_call()?;
        let access = self.access.as_ref().filter(|access| !access.permits().is_deterministic());
        Ok(access.cloned().ok_or_else(|| WitError {
            kind: "unavailable".to_owned(),
            message:
                "a call with no granted capability other than 'workspace-read' is deterministic, so it cannot read \
                 its id or its remaining limits"
                    .to_owned(),
        }))
    }
}

impl call::Host for GuestState {
    async fn info(&mut self) -> HostResult<CallInfo> {
        let info = |access: Arc<CallAccess>| CallInfo {
            id: access.services.call.call_id(),
            // The host never repeats a call.
            attempt: 1,
            extra: Vec::new(),
        };
        Ok(self.call_access()?.map(info))
    }

    async fn remaining(&mut self, limit: String) -> HostResult<u64> {
        if let Err(unavailable) = self.call_access()? {
            return Ok(Err(unavailable));
        }
        Ok(match &*limit {
            "time-ms" => {
                let left = self.fixed().map_or_else(|| self.budget.clock.time_left(), |fixed| fixed.time_left);
                Ok(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
            }
            "host-calls" => Ok(self.budget.host_calls.saturating_sub(self.spent.host_calls).into()),
            "output-bytes" => Ok(self.budget.output_bytes.saturating_sub(self.spent.output_bytes) as u64),
            "inference-tokens" => Ok(self.inference_tokens_left()),
            other => Err(WitError {
                kind: "invalid".to_owned(),
                message: format!(
                    "unknown limit '{}'; use time-ms, host-calls, output-bytes or inference-tokens",
                    text::excerpt(other, 40)
                ),
            }),
        })
    }
}

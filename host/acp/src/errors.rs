//! Errors that the Agent Client Protocol adds to JSON-RPC.

use patchbay_core::{Code, text};
use patchbay_jsonrpc::RpcError;
use serde_json::json;

/// The error of `session/set_mode`. The protocol had modes before it had options, and some clients still call this method.
pub(crate) fn no_modes() -> RpcError {
    let message = "this agent has no modes. Its personas are the option 'mode': call session/set_config_option with the \
                   configId 'mode'.";
    RpcError::new(-32601, message)
}

/// The error for a session that is not stored in this home.
pub(crate) fn session_not_found(id: &str) -> RpcError {
    let message = format!("session '{}' was not found.", text::excerpt(id, 80));
    RpcError { data: Some(json!({ "code": Code::SessionNotFound })), ..RpcError::new(-32002, message) }
}

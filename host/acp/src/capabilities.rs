//! The response to `initialize`: what this agent can do. `connection` sends it.

use patchbay_session::{DefaultChoice, Host};
use serde_json::{Value, json};

/// The only protocol version that this front supports.
const PROTOCOL_VERSION: u16 = 1;

/// Returns the result of `initialize`. It offers version 1 whatever version the client requested, and the client decides whether to
/// continue. Audio is always accepted, because commands can use it; models never receive it.
pub(crate) async fn initialized(host: &Host, version: &str) -> Value {
    let media = match host.providers().default_choice().await {
        Ok(DefaultChoice { choice, .. }) => host.providers().model(&choice.provider, &choice.model).await,
        Err(_) => None,
    };
    let media = media.map(|model| model.input_media).unwrap_or_default();
    let reads = |kind: &str| media.iter().any(|media| media.starts_with(kind));
    json!({
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {"name": "patchbay", "title": "Patchbay", "version": version},
        "agentCapabilities": {
            "loadSession": true,
            "mcpCapabilities": {"http": true, "sse": false},
            "promptCapabilities": {"image": reads("image/"), "audio": true, "embeddedContext": true},
            "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}},
        },
        "authMethods": [],
    })
}

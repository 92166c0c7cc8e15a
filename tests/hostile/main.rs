//! Guests that mean no good. Each try ends in its typed error, and the next call works.

use std::sync::Arc;

use patchbay_core::Digest;
use patchbay_sandbox::{Limits, Sandbox};
use patchbay_tests::guest::Guest;

#[tokio::test]
async fn smoke() {
    let sandbox = Arc::new(Sandbox::new(Limits::default()));
    let bytes = Guest::default().component();
    let loaded = sandbox.load(Digest::of(&bytes), bytes).await.unwrap();
    let tools = sandbox.describe(&loaded).await.unwrap();
    assert_eq!(tools[0].name.as_str(), "run");
}

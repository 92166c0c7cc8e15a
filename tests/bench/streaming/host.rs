//! A host whose provider is a server on this machine.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use patchbay_core::{EventKind, MessageKind};
use patchbay_egress::Variables;
use patchbay_provider::{ProviderConfig, Settings};
use patchbay_session::{Config, Host, Received, Session};
use patchbay_tests::host::{bundled_adapters, config};
use serde_json::json;

use super::{KEY, MODEL};

/// Returns a host with its home in `home`, whose model is served at `origin`.
pub fn host(home: &Path, origin: &str) -> Arc<Host> {
    fs::create_dir_all(home.join("config")).unwrap();
    fs::create_dir_all(home.join("workspace")).unwrap();
    fs::write(home.join("config/credentials.json"), json!({"anthropic": {"token": KEY}}).to_string()).unwrap();
    let origin = Some(origin.to_owned());
    let settings = move || {
        // A variable that is not set, because the user may have a real key in the usual one.
        let env = Some(Variables::new(["PATCHBAY_BENCH_KEY".to_owned()]));
        let anthropic = ProviderConfig { origin: origin.clone(), env, ..ProviderConfig::default() };
        let providers = BTreeMap::from([("anthropic".parse().unwrap(), anthropic)]);
        Ok(Settings { providers, default_model: Some(MODEL.to_owned()), ..Settings::default() })
    };
    let bundled_adapters = bundled_adapters(&["anthropic"]);
    Host::open(Config { bundled_adapters, providers: Box::new(settings), ..config(home) }).unwrap()
}

/// Creates a session in the folder `workspace` of `home`.
pub async fn session(host: &Arc<Host>, home: &Path) -> Arc<Session> {
    host.new_session(&home.join("workspace")).await.unwrap()
}

/// Runs one turn and returns the answer. Calls `seen` for each event with a piece of it.
pub async fn turn(session: &Arc<Session>, seen: impl Fn() + Send + 'static) -> String {
    let mut events = session.subscribe(session.last_seq() + 1);
    let front = tokio::spawn(async move {
        loop {
            match events.next().await.unwrap().expect("the session is there") {
                Received::Event(event) => match event.kind {
                    EventKind::Delta { .. } => seen(),
                    EventKind::Message { kind: MessageKind::Assistant, .. } => return,
                    _ => {}
                },
                Received::Lagged(missed) => panic!("{missed} events are lost"),
            }
        }
    });
    let outcome = session.submit("hello").await;
    assert!(outcome.is_ok(), "{}", outcome.message);
    front.await.unwrap();
    outcome.message
}

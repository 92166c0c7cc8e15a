//! Measures commands and completion with a long list of models.

use std::{collections::BTreeMap, time::Instant};

use patchbay_provider::{ProviderConfig, Settings};
use patchbay_tests::{
    binary::Patchbay,
    host::host,
    server::{Server, response},
};
use serde_json::json;

use crate::{
    nanoseconds,
    report::{Report, Samples, ms_row},
};

const MODELS: usize = 2_000;
const TIMES: usize = 200;

pub fn measure(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let ids = (0..MODELS).map(|model| json!({"id": format!("vendor-{}/model-{model}", model % 40), "object": "model"}));
    let list = json!({"object": "list", "data": ids.collect::<Vec<_>>()}).to_string();
    let server = Server::always(response("200 OK", "application/json", &list));
    let patchbay = Patchbay::new();
    let many = ProviderConfig {
        adapter: Some("openai-compatible".parse().unwrap()),
        origin: Some(format!("http://{}/v1", server.host())),
        ..ProviderConfig::default()
    };
    let providers = BTreeMap::from([("many".parse().unwrap(), many)]);
    let host = host(&patchbay, Settings { providers, ..Settings::default() });
    let session = runtime.block_on(host.new_session(&patchbay.workspace())).unwrap();
    let refreshed = runtime.block_on(async { session.submit("/providers refresh").await });
    assert!(refreshed.message.contains("\nmany: 2,000 models ("), "{}", refreshed.message);

    let mut rows = Vec::new();
    for (name, line, suggestions) in [
        ("Tab after `/model `", "/model ", Some(1)),
        ("Tab after `/model vendor-7/`", "/model vendor-7/", Some(MODELS / 40)),
        ("`/model vendor-7/model-1007`", "/model vendor-7/model-1007", None),
        ("`/model nothing`, which lists models", "/model nothing", None),
    ] {
        let mut times = Vec::new();
        for _ in 0..TIMES {
            let start = Instant::now();
            match suggestions {
                Some(least) => assert!(runtime.block_on(session.complete(line)).len() >= least),
                None => drop(runtime.block_on(async { session.submit(line).await })),
            }
            times.push(nanoseconds(start));
        }
        let times = Samples::new(times);
        rows.push(ms_row(name, &times));
    }
    runtime.block_on(session.close());
    report.section(
        "A long list of models",
        &format!(
            "A session in the process of the benchmark, whose provider has listed {MODELS} models. Each line {TIMES} times. \
             Milliseconds."
        ),
    );
    report.table(&["", "p50", "p99"], &rows);
}

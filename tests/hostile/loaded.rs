//! Which components remain loaded in memory after their use.

use std::sync::{Arc, Weak};

use patchbay_sandbox::Loaded;
use patchbay_tests::guest::Guest;

use crate::support::{Harness, small_limits};

fn component(n: usize) -> Vec<u8> {
    let tools = vec![("run".into(), format!("Number {n}"), r#"{"type":"object"}"#.into())];
    Guest { tools, ..Guest::default() }.component()
}

#[tokio::test]
async fn unreferenced_components_are_evicted_except_recent_ones() {
    let harness = Harness::new(small_limits());
    let held = harness.load(&component(0)).await.unwrap();
    let mut others: Vec<Weak<Loaded>> = Vec::new();
    for n in 1..=40 {
        others.push(Arc::downgrade(&harness.load(&component(n)).await.unwrap()));
    }
    let alive: Vec<_> = (1..=40).filter(|n| others[n - 1].strong_count() > 0).collect();
    assert_eq!(alive, (25..=40).collect::<Vec<_>>());
    // Referenced components are still loaded and work; evicted ones are loaded again.
    assert!(Arc::ptr_eq(&held, &harness.load(&component(0)).await.unwrap()));
    assert_eq!(harness.sandbox.describe(&held).await.unwrap()[0].description, "Number 0");
    let again = harness.load(&component(1)).await.unwrap();
    assert_eq!(harness.sandbox.describe(&again).await.unwrap()[0].description, "Number 1");
}

#[tokio::test]
async fn concurrent_loads_share_one_component() {
    let harness = Arc::new(Harness::new(small_limits()));
    let loading: Vec<_> = (0..8)
        .map(|_| {
            let harness = Arc::clone(&harness);
            tokio::spawn(async move { harness.load(&component(1)).await.unwrap() })
        })
        .collect();
    let mut loaded = Vec::new();
    for one in loading {
        loaded.push(one.await.unwrap());
    }
    assert!(loaded.iter().all(|one| Arc::ptr_eq(one, &loaded[0])));
}

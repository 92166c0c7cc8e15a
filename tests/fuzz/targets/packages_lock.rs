//! Any bytes as `packages.lock`: they parse or are refused with one line, and a lock that parses is unchanged after writing and
//! reading.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use patchbay_skill::PackagesLock;

fuzz_target!(|text: &str| {
    let lock = match PackagesLock::parse(text) {
        Ok(lock) => lock,
        Err(error) => {
            let message = error.to_string();
            return assert!(!message.is_empty() && message.len() < 2_000 && !message.contains('\n'), "{message}");
        }
    };
    let written = lock.to_text();
    let again = PackagesLock::parse(&written).expect("a written lock is valid");
    assert_eq!((&again, again.to_text()), (&lock, written), "it is read back as it was");
    let mut places = BTreeSet::new();
    for package in lock.packages() {
        for skill in &package.skills {
            let path = format!("{}/{}", package.folder(), skill.path);
            assert!(!path.split('/').any(|part| matches!(part, "" | "." | "..")), "{path} stays inside");
            assert!(places.insert((package.name.clone(), skill.name.clone())), "an identity is unique");
        }
        assert!(lock.next_order() > package.order || package.order == u64::MAX);
        assert_eq!(lock.without(package.name.as_str()).packages().len() + 1, lock.packages().len());
    }
});

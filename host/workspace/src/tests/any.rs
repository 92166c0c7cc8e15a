//! Property test: no path from a plugin reads, changes or lists anything outside the workspace.

use proptest::prelude::*;

use super::{Fixture, SENTINEL};

fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.file("a/b", "inside");
    fixture.file("own/secret", SENTINEL);
    fixture.file("own/a/b", SENTINEL);
    fixture.link("../own", "a/own");
    fixture.link("a/own/a", "mine");
    fixture.protecting(&["own"]);
    fixture.link("..", "up");
    fixture.link("../outside", "out");
    fixture.link("../../outside/secret", "a/s");
    fixture.link("a", "in");
    fixture
}

/// Random combinations of meaningful parts, or random text.
fn path() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a", "b", "s", "up", "out", "in", "own", "mine", "root", "outside", "secret", "..", ".", "", "/", "etc",
        "passwd", "\\", "..\\", "\0", "~", "%2e%2e", "\u{2025}", "\u{ff0f}", "proc", "self", "cwd",
    ]);
    prop_oneof![
        4 => prop::collection::vec(part, 1..8).prop_map(|parts| parts.join("/")),
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_paths_stay_inside(path in path(), after in path()) {
        let fixture = fixture();
        if let Ok(bytes) = fixture.workspace.read(&path, 0, 1_000) {
            prop_assert_eq!(bytes, b"inside");
        }
        if let Ok(entries) = fixture.workspace.walk(&path, Some(&after), 100) {
            for entry in entries {
                prop_assert!(entry.size != SENTINEL.len() as u64 && !entry.path.contains(".."), "{:?}", entry);
            }
        }
        if fixture.workspace.write(&path, b"inside").is_ok() {
            prop_assert_eq!(fixture.read(&path).unwrap(), "inside");
        }
        fixture.assert_outside_is_untouched();
        let _ = fixture.workspace.delete(&path);
        fixture.assert_outside_is_untouched();
        for file in ["own/secret", "own/a/b"] {
            prop_assert_eq!(std::fs::read_to_string(fixture.root.join(file)).unwrap(), SENTINEL);
        }
        prop_assert_eq!(std::fs::read_dir(fixture.root.join("own")).unwrap().count(), 2);
        for entry in fixture.workspace.walk("**", None, 100).unwrap() {
            prop_assert!(entry.size != SENTINEL.len() as u64, "{:?}", entry);
        }
        prop_assert_eq!(std::fs::read_dir(fixture.root.join("..")).unwrap().count(), 2);
    }
}

//! Whatever a guest gives as a path, nothing outside is read, changed or listed.

use proptest::prelude::*;

use super::{House, SENTINEL};

fn house() -> House {
    let mut house = House::new();
    house.file("a/b", "inside");
    house.file("own/secret", SENTINEL);
    house.file("own/a/b", SENTINEL);
    house.link("../own", "a/own");
    house.link("a/own/a", "mine");
    house.protecting(&["own"]);
    house.link("..", "up");
    house.link("../outside", "out");
    house.link("../../outside/secret", "a/s");
    house.link("a", "in");
    house
}

/// Parts that lead somewhere, put together in any way; or any text at all.
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
    fn no_path_escapes(path in path(), after in path()) {
        let house = house();
        if let Ok(bytes) = house.workspace.read(&path, 0, 1_000) {
            prop_assert_eq!(bytes, b"inside");
        }
        if let Ok(entries) = house.workspace.walk(&path, Some(&after), 100) {
            for entry in entries {
                prop_assert!(entry.size != SENTINEL.len() as u64 && !entry.path.contains(".."), "{:?}", entry);
            }
        }
        if house.workspace.write(&path, b"inside").is_ok() {
            prop_assert_eq!(house.read(&path).unwrap(), "inside");
        }
        house.assert_outside_is_untouched();
        let _ = house.workspace.delete(&path);
        house.assert_outside_is_untouched();
        for file in ["own/secret", "own/a/b"] {
            prop_assert_eq!(std::fs::read_to_string(house.root.join(file)).unwrap(), SENTINEL);
        }
        prop_assert_eq!(std::fs::read_dir(house.root.join("own")).unwrap().count(), 2);
        for entry in house.workspace.walk("**", None, 100).unwrap() {
            prop_assert!(entry.size != SENTINEL.len() as u64, "{:?}", entry);
        }
        prop_assert_eq!(std::fs::read_dir(house.root.join("..")).unwrap().count(), 2);
    }
}

//! Races: another thread swaps directories and files for links that lead out during reads, walks and writes.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::Fixture;

/// Number of swaps in each test.
const SWAPS: usize = 1_000;

/// Files outside have different contents and sizes than files inside.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.file("dir/secret", "inside");
    fixture.file("dir/deep/secret", "inside");
    fixture.file("file", "inside");
    symlink(&fixture.outside, fixture.root.join("absolute")).unwrap();
    symlink("../outside", fixture.root.join("relative")).unwrap();
    fixture
}

/// Repeats `act` while another thread calls `swap` the given number of times.
fn while_swapped(fixture: &Fixture, swap: impl Fn() + Sync, act: impl Fn()) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Set on drop, which also ends the loop below if `swap` panics.
            let _done = SetOnDrop(&done);
            (0..SWAPS).for_each(|_| swap());
        });
        while !done.load(Ordering::Relaxed) {
            act();
        }
    });
    fixture.assert_outside_is_untouched();
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Replaces `dir` with a link for a moment.
fn swap_directory(fixture: &Fixture) {
    // A write may create a directory while the name is free, and may still be filling it, so removing it can take
    // several tries.
    let rename = |from: &str, to: &str| {
        for _ in 0..1_000 {
            if fs::rename(fixture.root.join(from), fixture.root.join(to)).is_ok() {
                return;
            }
            let _ = fs::remove_dir_all(fixture.root.join(to));
        }
        panic!("'{from}' does not get the name '{to}'");
    };
    for link in ["absolute", "relative"] {
        rename("dir", "aside");
        rename(link, "dir");
        thread::yield_now();
        rename("dir", link);
        rename("aside", "dir");
    }
}

#[test]
fn reads_stay_inside_while_a_directory_is_swapped() {
    let fixture = fixture();
    let act = || {
        for path in ["dir/secret", "dir/deep/secret"] {
            if let Ok(bytes) = fixture.workspace.read(path, 0, 1_000) {
                assert_eq!(bytes, b"inside");
            }
        }
    };
    while_swapped(&fixture, || swap_directory(&fixture), act);
}

#[test]
fn walks_stay_inside_while_a_directory_is_swapped() {
    let fixture = fixture();
    let act = || {
        for entry in fixture.workspace.walk("**", None, 100).unwrap() {
            assert!(entry.is_directory || entry.size == "inside".len() as u64, "{entry:?}");
        }
    };
    while_swapped(&fixture, || swap_directory(&fixture), act);
}

#[test]
fn writes_stay_inside_while_a_directory_is_swapped() {
    let fixture = fixture();
    let act = || {
        let _ = fixture.workspace.write("dir/made/by-us", b"inside");
        let _ = fixture.workspace.write("dir/deep/secret", b"inside");
        let _ = fixture.workspace.delete("dir/made/by-us");
        // Files of these names exist outside and must not be removed or changed.
        let _ = fixture.workspace.write("dir/secret", b"inside");
        let _ = fixture.workspace.delete("dir/secret");
    };
    while_swapped(&fixture, || swap_directory(&fixture), act);
}

#[test]
fn own_folder_swapped_in_stays_protected() {
    let mut fixture = fixture();
    fixture.file("own/secret", "not for plugins");
    fixture.file("own/deep/secret", "not for plugins");
    fixture.protecting(&["own"]);
    let swap = || {
        for (from, to) in [("dir", "aside"), ("own", "dir"), ("dir", "own"), ("aside", "dir")] {
            fs::rename(fixture.root.join(from), fixture.root.join(to)).unwrap();
            thread::yield_now();
        }
    };
    let act = || {
        for path in ["dir/secret", "dir/deep/secret", "own/secret"] {
            if let Ok(bytes) = fixture.workspace.read(path, 0, 1_000) {
                assert_eq!(bytes, b"inside");
            }
        }
        for entry in fixture.workspace.walk("**/secret", None, 100).unwrap() {
            assert_eq!(entry.size, "inside".len() as u64, "{entry:?}");
        }
    };
    while_swapped(&fixture, swap, act);
}

#[test]
fn file_that_becomes_a_link_is_not_followed() {
    let fixture = fixture();
    let file = fixture.root.join("file");
    let swap = || {
        let _ = fs::remove_file(&file);
        let _ = symlink("../outside/secret", &file);
        thread::yield_now();
        let _ = fs::remove_file(&file);
        let _ = fs::write(&file, "inside");
    };
    let act = || {
        let _ = fixture.workspace.write("file", b"inside");
        if let Ok(bytes) = fixture.workspace.read("file", 0, 1_000) {
            assert!(b"inside".starts_with(&bytes), "{bytes:?}");
        }
    };
    while_swapped(&fixture, swap, act);
}

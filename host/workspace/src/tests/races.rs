//! Somebody swaps directories and files for links that lead out, while we read, list and write.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::House;

/// How often each of them is swapped.
const SWAPS: usize = 1_000;

/// What is outside has other contents and another size than what is inside.
fn house() -> House {
    let house = House::new();
    house.file("dir/secret", "inside");
    house.file("dir/deep/secret", "inside");
    house.file("file", "inside");
    symlink(&house.outside, house.root.join("absolute")).unwrap();
    symlink("../outside", house.root.join("relative")).unwrap();
    house
}

/// Does `act` again and again, until `swap` was done often enough.
fn while_swapped(house: &House, swap: impl Fn() + Sync, act: impl Fn()) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Also where it panics: else the other would never end.
            let _over = Over(&done);
            (0..SWAPS).for_each(|_| swap());
        });
        while !done.load(Ordering::Relaxed) {
            act();
        }
    });
    house.assert_outside_is_untouched();
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Makes `dir` a link for a moment.
fn swap_directory(house: &House) {
    // A write may make a directory while the name is free, and go on filling it: it makes way, maybe not at once.
    let rename = |from: &str, to: &str| {
        for _ in 0..1_000 {
            if fs::rename(house.root.join(from), house.root.join(to)).is_ok() {
                return;
            }
            let _ = fs::remove_dir_all(house.root.join(to));
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
fn reading() {
    let house = house();
    let act = || {
        for path in ["dir/secret", "dir/deep/secret"] {
            if let Ok(bytes) = house.workspace.read(path, 0, 1_000) {
                assert_eq!(bytes, b"inside");
            }
        }
    };
    while_swapped(&house, || swap_directory(&house), act);
}

#[test]
fn listing() {
    let house = house();
    let act = || {
        for entry in house.workspace.walk("**", None, 100).unwrap() {
            assert!(entry.is_directory || entry.size == "inside".len() as u64, "{entry:?}");
        }
    };
    while_swapped(&house, || swap_directory(&house), act);
}

#[test]
fn writing() {
    let house = house();
    let act = || {
        let _ = house.workspace.write("dir/made/by-us", b"inside");
        let _ = house.workspace.write("dir/deep/secret", b"inside");
        let _ = house.workspace.delete("dir/made/by-us");
        // Outside there are files of these names; they must neither go nor change.
        let _ = house.workspace.write("dir/secret", b"inside");
        let _ = house.workspace.delete("dir/secret");
    };
    while_swapped(&house, || swap_directory(&house), act);
}

#[test]
fn a_directory_that_gives_way_to_one_of_patchbays_own() {
    let mut house = house();
    house.file("own/secret", "not for plugins");
    house.file("own/deep/secret", "not for plugins");
    house.protecting(&["own"]);
    let swap = || {
        for (from, to) in [("dir", "aside"), ("own", "dir"), ("dir", "own"), ("aside", "dir")] {
            fs::rename(house.root.join(from), house.root.join(to)).unwrap();
            thread::yield_now();
        }
    };
    let act = || {
        for path in ["dir/secret", "dir/deep/secret", "own/secret"] {
            if let Ok(bytes) = house.workspace.read(path, 0, 1_000) {
                assert_eq!(bytes, b"inside");
            }
        }
        for entry in house.workspace.walk("**/secret", None, 100).unwrap() {
            assert_eq!(entry.size, "inside".len() as u64, "{entry:?}");
        }
    };
    while_swapped(&house, swap, act);
}

#[test]
fn a_file_that_turns_into_a_link() {
    let house = house();
    let file = house.root.join("file");
    let swap = || {
        let _ = fs::remove_file(&file);
        let _ = symlink("../outside/secret", &file);
        thread::yield_now();
        let _ = fs::remove_file(&file);
        let _ = fs::write(&file, "inside");
    };
    let act = || {
        let _ = house.workspace.write("file", b"inside");
        if let Ok(bytes) = house.workspace.read("file", 0, 1_000) {
            assert!(b"inside".starts_with(&bytes), "{bytes:?}");
        }
    };
    while_swapped(&house, swap, act);
}

use super::{House, kind};
use crate::limits;

#[test]
fn a_range_of_a_file() {
    let house = House::new();
    house.file("a/b.txt", "0123456789");
    let read = |offset, max| house.workspace.read("a/b.txt", offset, max).unwrap();
    assert_eq!(read(0, 1_000), b"0123456789");
    assert_eq!(read(3, 4), b"3456");
    assert_eq!(read(8, 4), b"89");
    assert_eq!(read(10, 4), b"");
    assert_eq!(read(u64::MAX, limits::READ_BYTES), b"");
    assert_eq!(read(0, 0), b"");
}

#[test]
fn what_cannot_be_read_says_so() {
    let house = House::new();
    house.file("a/b.txt", "x");
    assert_eq!(kind(house.read("a")), "invalid");
    assert_eq!(kind(house.read("b")), "not-found");
    assert_eq!(kind(house.read("a/b.txt/c")), "not-found");
    assert_eq!(kind(house.workspace.read("a/b.txt", 0, limits::READ_BYTES + 1)), "too-large");
    assert_eq!(
        house.read("a/c").unwrap_err().to_string(),
        "there is no 'a/c' in the workspace; walk lists what there is"
    );
}

#[test]
fn links_inside_are_followed() {
    let house = House::new();
    house.file("a/b/c.txt", "inside");
    house.link("a/b", "short");
    house.link("./b/../b//c.txt", "a/dotted");
    house.link("../a/dotted", "a/chain");
    house.link("../short/c.txt", "a/through");
    for path in ["short/c.txt", "a/dotted", "a/chain", "a/through"] {
        assert_eq!(house.read(path).unwrap(), "inside", "{path}");
    }
    assert_eq!(kind(house.read("short")), "invalid");
    house.link("gone", "dangling");
    assert_eq!(kind(house.read("dangling")), "not-found");
}

#[test]
fn patchbay_is_read_and_git_is_not() {
    let house = House::new();
    house.file(".patchbay/agents/a/SOUL.md", "soul");
    house.file(".git/config", "token");
    house.file("sub/.git", "gitdir: elsewhere");
    house.link(".git/config", "config");
    house.link("../.git", "sub/repository");
    house.link("sub/repository", "again");
    assert_eq!(house.read(".patchbay/agents/a/SOUL.md").unwrap(), "soul");
    for path in [".git/config", "sub/.git", "config", "sub/repository/config", "again/config", ".GIT/config", ".git"] {
        assert_eq!(kind(house.read(path)), "denied", "{path}");
    }
}

//! Tests of the list of skills.

use proptest::prelude::*;

use super::*;

fn entry(name: &str, description: &str, rank: ShownRank) -> ListedSkill {
    ListedSkill { name: name.to_owned(), description: description.to_owned(), rank }
}

fn text(entries: &[ListedSkill], room: usize) -> String {
    list(entries, room).text.unwrap()
}

/// Returns the names of a list's skills: those with a description, and those without.
fn names(text: &str) -> (Vec<&str>, Vec<&str>) {
    let described = text.lines().filter_map(|line| line.strip_prefix("- "));
    let described = described.map(|line| line.split_once(": ").map_or(line, |(name, _)| name)).collect();
    let named = text.lines().find_map(|line| line.strip_prefix(NAMED.trim_start()));
    (described, named.map(|names| names.split(COMMA).collect()).unwrap_or_default())
}

const RANKS: [ShownRank; 5] =
    [ShownRank::User, ShownRank::TrustedWorkspace, ShownRank::Bundled, ShownRank::Extra, ShownRank::UntrustedWorkspace];

#[test]
fn small_list_is_shown_whole() {
    let entries = [entry("b", "", ShownRank::User), entry("a", "Sums (input: a + b)", ShownRank::Bundled)];
    assert_eq!(
        list(&entries, 4_000),
        SkillList { text: Some(format!("{HEAD}\n- a: Sums (input: a + b)\n- b")), left_out: 0 }
    );
    assert_eq!(list(&[], 4_000), SkillList { text: None, left_out: 0 });
}

#[test]
fn skills_without_room_for_a_description_are_named() {
    let entries = [
        entry("mine", &"x".repeat(300), ShownRank::User),
        entry("long", &"y".repeat(900), ShownRank::Bundled),
        entry("short", "Sums", ShownRank::Bundled),
        entry("another", &"z".repeat(900), ShownRank::Extra),
    ];
    let expected = format!(
        "{HEAD}\n- mine: {}\n- short: Sums\nMore skills, described by find_skills: another, long",
        "x".repeat(300)
    );
    assert_eq!(list(&entries, 1_000), SkillList { text: Some(expected), left_out: 2 });
}

#[test]
fn three_hundred_skills_are_all_named() {
    let entries: Vec<_> =
        (0..300).map(|n| entry(&format!("skill-{n:03}"), &"x".repeat(200), ShownRank::User)).collect();
    for room in [4_000, 10_240, 16_000] {
        let shown = text(&entries, room);
        assert!(shown.len() <= room && shown.len() > room - 300, "{} of {room}", shown.len());
        let (described, named) = names(&shown);
        assert_eq!(described.len() + named.len(), 300);
        // The first skills have their whole descriptions.
        assert!(described.iter().all(|name| *name < named[0]));
        assert_eq!(shown.matches(&format!(": {}", "x".repeat(200))).count(), described.len());
        assert!(!shown.contains(" more skills: "), "{shown}");
    }
}

#[test]
fn names_that_do_not_fit_are_counted() {
    let entries: Vec<_> =
        (0..1_000).map(|n| entry(&format!("skill-{n:04}"), &"x".repeat(100), ShownRank::User)).collect();
    let shown = list(&entries, 4_000);
    let text = shown.text.unwrap();
    let (described, named) = names(&text);
    assert!(described.is_empty() && text.len() <= 4_000 && text.len() > 3_900, "{}", text.len());
    assert!(text.ends_with(&format!("\n{} more skills: call find_skills.", 1_000 - named.len())), "{text}");
    assert_eq!((shown.left_out, named[0]), (1_000, "skill-0000"));
}

/// The longest name has 64 bytes, and the longest description 1,024 characters of up to four bytes.
#[test]
fn untrusted_workspace_has_a_quarter() {
    let mut entries: Vec<_> = (0..10).map(|n| entry(&format!("mine{n}"), &"x".repeat(200), ShownRank::User)).collect();
    let theirs = |n: usize| entry(&format!("theirs{n:058}"), &"\u{10000}".repeat(1_024), ShownRank::UntrustedWorkspace);
    entries.extend((0..100).map(theirs));
    let shown = text(&entries, 4_000);
    let (described, named) = names(&shown);
    assert!(described.iter().all(|name| name.starts_with("mine")) && described.len() == 10, "{shown}");
    assert!(named.len() == 1_000 / 66 && named.iter().all(|name| name.starts_with("theirs")), "{}", named.len());
    entries.truncate(10);
    entries.push(entry("theirs", &"y".repeat(900), ShownRank::UntrustedWorkspace));
    assert!(text(&entries, 4_000).contains("yyy"), "it fits into the quarter");
}

fn entries() -> impl Strategy<Value = Vec<ListedSkill>> {
    let one = ("[a-z]{1,12}", "[a-zäß€ ]{0,90}", 1..8_usize, 0..RANKS.len());
    proptest::collection::vec(one, 0..80).prop_map(|all| {
        let one = |(n, (name, words, times, rank)): (usize, (String, String, usize, usize))| {
            entry(&format!("{name}{n}"), words.repeat(times).trim(), RANKS[rank])
        };
        let mut entries: Vec<_> = all.into_iter().enumerate().map(one).collect();
        entries.sort_by(|a, b| (a.rank, &a.name).cmp(&(b.rank, &b.name)));
        entries
    })
}

proptest! {
    /// The list is never over the budget, keeps the names that come first, and leaves out descriptions before names.
    #[test]
    fn list_names_the_first_within_its_budget(entries in entries(), room in 1_000..20_000_usize) {
        let shown = list(&entries, room);
        prop_assert_eq!(&shown, &list(&entries, room));
        let Some(text) = shown.text else {
            prop_assert!(entries.is_empty());
            return Ok(());
        };
        prop_assert!(text.len() <= room);
        let details = choose(&entries, room);
        let (described, named) = names(&text);
        let count = |detail: Detail| details.iter().filter(|chosen| **chosen == detail).count();
        prop_assert_eq!((described.len(), named.len()), (count(Detail::Whole), count(Detail::Name)));
        prop_assert_eq!(shown.left_out, entries.len() - described.len());
        prop_assert!(described.is_sorted() && named.is_sorted());
        prop_assert!(details.is_sorted_by_key(|detail| *detail == Detail::Nothing), "{:?}", details);
        // A name is left out only if all names together are too long.
        if count(Detail::Nothing) > 0 {
            let bytes: usize = entries.iter().map(ListedSkill::name_bytes).sum();
            prop_assert!(bytes > budget::untrusted(room).min(room - HEAD.len() - NAMED.len() - tail(entries.len()).len()));
        }
    }
}

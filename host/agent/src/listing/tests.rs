//! Tests of the list of skills.

use proptest::prelude::*;

use super::*;

fn entry(name: &str, description: &str, rank: ShownRank) -> ListedSkill {
    ListedSkill::new(name.to_owned(), description.to_owned(), rank)
}

fn text(entries: &[ListedSkill], room: usize) -> String {
    list(entries, room).text.unwrap()
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
fn descriptions_are_cut_evenly_before_a_skill_is_left_out() {
    let entries: Vec<_> = (0..20).map(|n| entry(&format!("s{n:02}"), &"ä".repeat(200), ShownRank::User)).collect();
    let shown = text(&entries, 4_000);
    let lines: Vec<&str> = shown.lines().skip(1).collect();
    assert_eq!(lines.len(), 20);
    let lengths: Vec<usize> = lines.iter().map(|line| line.chars().filter(|c| *c == 'ä').count()).collect();
    assert!(lengths.iter().all(|length| *length == lengths[0] && (60..200).contains(length)), "{lengths:?}");
    assert!(lines[0].ends_with('…') && shown.len() <= 4_000 && shown.len() > 3_900, "{}", shown.len());
}

#[test]
fn skills_that_do_not_fit_are_counted() {
    let entries: Vec<_> = (0..200).map(|n| entry(&format!("s{n:03}"), &"x".repeat(100), ShownRank::User)).collect();
    let shown = list(&entries, 4_000);
    let text = shown.text.unwrap();
    assert!(text.contains(&format!("\n- s000: {}…\n", "x".repeat(60))), "{text}");
    assert!(text.ends_with(&format!("\n{} more skills: call find_skills.", shown.left_out)) && text.len() <= 4_000);
    assert_eq!(text.lines().count(), 200 - shown.left_out + 2);
}

#[test]
fn untrusted_workspace_has_a_quarter_and_cuts_itself() {
    let mut entries: Vec<_> = (0..10).map(|n| entry(&format!("mine{n}"), &"x".repeat(200), ShownRank::User)).collect();
    entries.extend((0..100).map(|n| entry(&format!("theirs{n:02}"), &"y".repeat(200), ShownRank::UntrustedWorkspace)));
    let shown = text(&entries, 4_000);
    let bytes = |of: &str| shown.lines().filter(|line| line.contains(of)).map(|line| line.len() + 1).sum::<usize>();
    assert!(bytes("theirs") <= 1_000 && bytes("theirs") > 900, "{}", bytes("theirs"));
    assert_eq!(shown.matches(&"x".repeat(200)).count(), 10, "others are as long as without it");
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
    /// Never over the budget; the first ones in the order are kept; no skill is left out while a description can be shortened.
    #[test]
    fn list_keeps_the_first_within_its_budget(entries in entries(), room in 1_000..20_000_usize) {
        let shown = list(&entries, room);
        prop_assert_eq!(&shown, &list(&entries, room));
        let Some(text) = shown.text else {
            prop_assert!(entries.is_empty());
            return Ok(());
        };
        prop_assert!(text.len() <= room);
        let is_shown = |entry: &ListedSkill| {
            text.lines().any(|line| line.strip_prefix("- ").is_some_and(|rest| rest.split(':').next() == Some(entry.name.as_str())))
        };
        let kept: Vec<bool> = entries.iter().map(is_shown).collect();
        prop_assert_eq!(kept.iter().filter(|kept| !**kept).count(), shown.left_out);
        prop_assert!(kept.is_sorted_by_key(|kept| !kept), "{:?}", kept);
        let any = |is_kept: bool, is_untrusted: bool| {
            let is = |entry: &ListedSkill| (entry.rank == ShownRank::UntrustedWorkspace) == is_untrusted;
            entries.iter().zip(&kept).any(|(entry, kept)| *kept == is_kept && is(entry))
        };
        let trusted_out = any(false, false);
        prop_assert!(!trusted_out || !any(true, true));
        if shown.left_out == 0 {
            prop_assert!(!text.ends_with("call find_skills."));
        } else {
            // What is listed is cut as far as it may be.
            let is_uncut = |entry: &ListedSkill| entry.chars > MIN_CHARS + 4 && text.contains(&entry.line(MIN_CHARS + 4));
            let same_part = |entry: &ListedSkill| trusted_out || entry.rank == ShownRank::UntrustedWorkspace;
            prop_assert!(!entries.iter().any(|entry| same_part(entry) && is_uncut(entry)));
        }
    }
}

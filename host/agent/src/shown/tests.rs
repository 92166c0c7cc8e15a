//! Tests of the selection of tools.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const RANKS: [ShownRank; 6] = [
    ShownRank::User,
    ShownRank::TrustedWorkspace,
    ShownRank::Bundled,
    ShownRank::Extra,
    ShownRank::Outside,
    ShownRank::UntrustedWorkspace,
];

/// The size of a schema without a title.
const EMPTY_SCHEMA: usize = r#"{"title":""}"#.len();

/// A group for a test: its rank, its name, and the length of the schema title of each tool.
type TestGroup = (ShownRank, String, Vec<usize>);

fn schemas(groups: &[TestGroup]) -> Vec<Vec<Value>> {
    let schema = |bytes: &usize| json!({"title": "x".repeat(*bytes)});
    groups.iter().map(|(_, _, tools)| tools.iter().map(schema).collect()).collect()
}

/// Selects tools in addition to two of the host's. Returns the declarations, and the number of groups left out.
fn selected(groups: &[TestGroup], room: ToolRoom) -> (Vec<ToolDeclaration>, usize) {
    selected_beside(&["kill", "fork"], &[], groups, room)
}

/// Selects tools in addition to the host's, some of which are hidden.
fn selected_beside(
    declared: &[&str],
    hidden: &[&str],
    groups: &[TestGroup],
    room: ToolRoom,
) -> (Vec<ToolDeclaration>, usize) {
    let schemas = schemas(groups);
    let groups = groups.iter().zip(&schemas).map(|((rank, name, _), schemas)| ToolGroup {
        rank: *rank,
        name,
        deferred: Vec::new(),
        tools: (0..)
            .zip(schemas)
            .map(|(n, schema): (usize, _)| DeclaredTool {
                name: format!("{name}__{n}").into(),
                description: "",
                input_schema: schema,
            })
            .collect(),
    });
    let of_host = |names: &[&str]| -> Vec<ToolDeclaration> {
        let declaration = |name: &&str| ToolDeclaration {
            name: (*name).to_owned(),
            description: String::new(),
            input_schema: "{}".to_owned(),
        };
        names.iter().map(declaration).collect()
    };
    select(of_host(declared), &of_host(hidden), &groups.collect::<Vec<_>>(), room)
}

fn names(declared: &[ToolDeclaration]) -> Vec<&str> {
    declared.iter().map(|tool| tool.name.as_str()).collect()
}

fn group(rank: ShownRank, name: &str, tools: &[usize]) -> TestGroup {
    (rank, name.to_owned(), tools.to_vec())
}

#[test]
fn tools_of_a_skill_are_declared_together() {
    let groups = [
        group(ShownRank::User, "a", &[0, 0]),
        group(ShownRank::User, "large", &[0, 0, 0]),
        group(ShownRank::Bundled, "c", &[0]),
    ];
    let (declared, left_out) = selected(&groups, ToolRoom { bytes: 1_000, tools: 5 });
    assert_eq!((names(&declared), left_out), (vec!["kill", "fork", "a__0", "a__1", "c__0"], 1));
    let (declared, left_out) = selected(&groups, ToolRoom { bytes: 1_000, tools: 8 });
    assert_eq!((declared.len(), left_out), (8, 0));
    // The host's tools are declared even over the limit.
    let (declared, left_out) = selected(&groups, ToolRoom { bytes: 1, tools: 1 });
    assert_eq!((names(&declared), left_out), (vec!["kill", "fork"], 3));
}

#[test]
fn untrusted_workspace_declares_a_quarter() {
    let theirs: Vec<TestGroup> =
        (0..20).map(|n| group(ShownRank::UntrustedWorkspace, &format!("t{n:02}"), &[0])).collect();
    let (declared, left_out) = selected(&theirs, ToolRoom { bytes: 10_000, tools: 32 });
    assert_eq!((declared.len(), left_out), (2 + 8, 12));
    let (declared, _) = selected(&theirs, ToolRoom { bytes: 400, tools: 32 });
    let used: usize = declared.iter().skip(2).map(bytes).sum();
    assert!((90..=100).contains(&used), "{used}");
}

fn groups() -> impl Strategy<Value = Vec<TestGroup>> {
    let one = (0..RANKS.len(), proptest::collection::vec(0..400_usize, 1..6));
    proptest::collection::vec(one, 0..40).prop_map(|all| {
        let one = |(n, (rank, tools)): (usize, (usize, Vec<usize>))| (RANKS[rank], format!("g{n:02}"), tools);
        let mut groups: Vec<TestGroup> = all.into_iter().enumerate().map(one).collect();
        groups.sort();
        groups
    })
}

proptest! {
    /// The selection is never over the budget and never splits a group. A group is left out only if it does not fit beside
    /// the groups before it.
    #[test]
    fn selection_keeps_the_order_within_the_room(groups in groups(), bytes in 100..8_000_usize, tools in 3..60_usize) {
        let room = ToolRoom { bytes, tools };
        let (declared, left_out) = selected(&groups, room);
        prop_assert_eq!(selected(&groups, room), (declared.clone(), left_out));
        prop_assert!(declared.len() <= tools && declared.iter().map(super::bytes).sum::<usize>() <= bytes);
        let all = names(&declared);
        let (mut left, mut untrusted, mut out) = (room, room.untrusted(), 0);
        left = left.without(ToolRoom { bytes: declared[..2].iter().map(super::bytes).sum(), tools: 2 });
        for (rank, name, tools) in &groups {
            let count = all.iter().filter(|tool| tool.starts_with(&format!("{name}__"))).count();
            prop_assert!(count == 0 || count == tools.len());
            let size = |(n, more): (usize, &usize)| format!("{name}__{n}").len() + EMPTY_SCHEMA + more;
            let used = ToolRoom { bytes: tools.iter().enumerate().map(size).sum(), tools: tools.len() };
            let limit = if *rank == ShownRank::UntrustedWorkspace { left.least(untrusted) } else { left };
            prop_assert_eq!(count > 0, used.bytes <= limit.bytes && used.tools <= limit.tools);
            if count == 0 {
                out += 1;
                continue;
            }
            left = left.without(used);
            if *rank == ShownRank::UntrustedWorkspace {
                untrusted = untrusted.without(used);
            }
        }
        prop_assert_eq!(out, left_out);
    }

    /// An agent that lacks one of the host's tools sees the same declarations of all other tools.
    #[test]
    fn hidden_tool_changes_no_other_declaration(groups in groups(), bytes in 0..8_000_usize, tools in 1..60_usize) {
        let room = ToolRoom { bytes, tools };
        let (all, all_left_out) = selected(&groups, room);
        let (others, left_out) = selected_beside(&["kill"], &["fork"], &groups, room);
        let without: Vec<_> = names(&all).into_iter().filter(|name| *name != "fork").collect();
        prop_assert_eq!((names(&others), left_out), (without, all_left_out));
    }
}

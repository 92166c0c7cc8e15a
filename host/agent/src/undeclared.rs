//! Decides which tools are not declared to a model, and how the model learns their names. Used by `shown`.
//!
//! The rule: a tool whose declaration has the annotation `deferred` is never declared, and neither are tools that do not fit into
//! the budget. `find_tools` returns both, `call_tool` calls them, and the description of `find_tools` lists their names. The rule
//! depends on nothing that happens in a conversation. In particular, a first child agent does not add the mail tools: tools come
//! first in every provider's cached prefix, so one more declaration would mean paying for the whole conversation again.

use std::{collections::HashSet, sync::Arc};

use patchbay_core::completion::ToolDeclaration;
use patchbay_skill::ShownRank;
use patchbay_tools::Internal;

use crate::shown::ToolGroup;

/// Size limit of the names that the description of `find_tools` lists, in bytes.
pub(crate) const NAMES_BYTES: usize = 400;

/// Returns the deferred tools of `internal` that the agent has.
pub(crate) fn deferred(internal: &[Arc<dyn Internal>]) -> Vec<Arc<dyn Internal>> {
    internal.iter().filter(|tool| tool.spec().is_deferred() && !tool.is_hidden()).map(Arc::clone).collect()
}

/// A tool that is not declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undeclared<'a> {
    name: &'a str,
    rank: ShownRank,
}

/// Returns the tools that `declared` lacks, in the order in which tools are kept.
pub(crate) fn left_out<'a>(
    internal: &'a [Arc<dyn Internal>],
    groups: &'a [ToolGroup<'_>],
    declared: &[ToolDeclaration],
) -> Vec<Undeclared<'a>> {
    let declared: HashSet<&str> = declared.iter().map(|tool| tool.name.as_str()).collect();
    let of_host = internal.iter().filter(|tool| tool.spec().is_deferred());
    let of_host = of_host.map(|tool| Undeclared { name: tool.spec().name.as_str(), rank: ShownRank::Host });
    let of_groups =
        groups.iter().flat_map(|group| group.names().map(move |name| Undeclared { name, rank: group.rank }));
    of_host.chain(of_groups).filter(|tool| !declared.contains(tool.name)).collect()
}

/// Returns the end of the description of `find_tools`: the first names, at most [`NAMES_BYTES`], and the number of the others.
/// An untrusted workspace could use tool names to write to the model, so its tools are only counted.
pub(crate) fn names(undeclared: &[Undeclared<'_>]) -> String {
    const HEAD: &str = "\nNot declared: ";
    let tail = |count: usize| if count == 0 { ".".to_owned() } else { format!(" and {count} more.") };
    let room = NAMES_BYTES - HEAD.len() - tail(usize::MAX).len();
    let trusted = undeclared.iter().filter(|tool| tool.rank != ShownRank::UntrustedWorkspace);
    let mut used = 0;
    let names: Vec<&str> = trusted
        .map(|tool| tool.name)
        .take_while(|name| {
            used += name.len() + ", ".len();
            used <= room
        })
        .collect();
    if names.is_empty() {
        return format!("\nNumber of tools not declared: {}.", undeclared.len());
    }
    format!("{HEAD}{}{}", names.join(", "), tail(undeclared.len() - names.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(names: &[String], rank: ShownRank) -> Vec<Undeclared<'_>> {
        names.iter().map(|name| Undeclared { name, rank }).collect()
    }

    #[test]
    fn names_are_listed_in_their_order() {
        let both = ["notes__add".to_owned(), "json__query".to_owned()];
        assert_eq!(names(&tools(&both, ShownRank::Bundled)), "\nNot declared: notes__add, json__query.");
    }

    #[test]
    fn names_that_do_not_fit_are_counted() {
        let many: Vec<String> = (0..1_000).map(|n| format!("skill__tool_{n:03}")).collect();
        let text = names(&tools(&many, ShownRank::Outside));
        assert!(text.len() <= NAMES_BYTES && text.len() > NAMES_BYTES - 60, "{}", text.len());
        let listed = text.matches("skill__tool_").count();
        assert!(text.ends_with(&format!(" and {} more.", 1_000 - listed)), "{text}");
        let longest = ["x".repeat(64)];
        assert!(names(&tools(&longest, ShownRank::User)).contains(&longest[0]));
    }

    #[test]
    fn tools_of_an_untrusted_workspace_are_not_named() {
        let [mine, theirs] = ["mine__a", "obey__me"].map(|name| [name.to_owned()]);
        let both = [tools(&mine, ShownRank::User), tools(&theirs, ShownRank::UntrustedWorkspace)].concat();
        assert_eq!(names(&both), "\nNot declared: mine__a and 1 more.");
        assert_eq!(names(&both[1..]), "\nNumber of tools not declared: 1.");
    }
}

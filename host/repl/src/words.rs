//! Sentences about agents that both fronts print.

/// Says how many agents were stopped.
pub(crate) fn stopped(agents: usize) -> String {
    format!("Stopped {}.", counted(agents))
}

/// Asks whether to leave while agents work.
pub(crate) fn leaving(working: usize) -> String {
    let (are, them) = if working == 1 { ("is", "it") } else { ("are", "them") };
    format!("{} {are} working. Ctrl+D again stops {them} and leaves.", counted(working))
}

fn counted(agents: usize) -> String {
    let s = if agents == 1 { "" } else { "s" };
    format!("{agents} agent{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_counted() {
        assert_eq!((stopped(1), stopped(2)), ("Stopped 1 agent.".to_owned(), "Stopped 2 agents.".to_owned()));
        assert_eq!(leaving(2), "2 agents are working. Ctrl+D again stops them and leaves.");
        assert_eq!(leaving(1), "1 agent is working. Ctrl+D again stops it and leaves.");
    }
}

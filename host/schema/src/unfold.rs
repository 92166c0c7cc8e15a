//! Checks the references of a compiled schema: no endless cycles, no long chains, and no growth beyond the limit when
//! each reference is replaced by its target. Called by `compile.rs`.

use crate::{
    SchemaError,
    keyword::{Edge, Index, Node},
    limits,
};

/// A problem with the references, and the node at which it occurs.
pub(crate) struct ReferenceError {
    pub node: Index,
    pub problem: ReferenceProblem,
}

pub(crate) enum ReferenceProblem {
    /// A cycle: applying the schema to a value would apply it to the same value again.
    Circle,
    /// More than [`limits::CHAIN`] references in a row.
    Chain,
    /// More than [`limits::UNFOLDED`] subschemas when each reference is replaced by its target.
    Unfolded,
}

impl ReferenceProblem {
    pub(crate) fn error(&self) -> SchemaError {
        match self {
            Self::Circle => {
                SchemaError::new("has a '$ref' that leads back to itself without entering a property or an item")
            }
            Self::Chain => {
                SchemaError::new(format_args!("has a chain of more than {} references ('$ref')", limits::CHAIN))
            }
            Self::Unfolded => SchemaError::new(format_args!(
                "has more than {} subschemas when each '$ref' is replaced by its target",
                limits::UNFOLDED
            )),
        }
    }
}

/// Checks the references of a schema with node 0 as its root. Sets [`Node::remember`] on each target of a `$ref` in a cycle.
pub(crate) fn check_references(nodes: &mut [Node]) -> Result<(), ReferenceError> {
    let edges: Vec<Vec<(usize, Edge)>> = nodes
        .iter()
        .map(|node| {
            let mut edges = Vec::new();
            node.edges(|target, edge| edges.push((target as usize, edge)));
            edges
        })
        .collect();
    check_chains(&edges)?;
    let components = Components::of(&edges);
    for (node, out) in edges.iter().enumerate() {
        for (target, edge) in out {
            if *edge == Edge::Reference && components.of_node[node] == components.of_node[*target] {
                nodes[*target].remember = true;
            }
        }
    }
    let size = components.of_node.first().map_or(0, |root| components.sizes[*root]);
    if size > limits::UNFOLDED { Err(ReferenceError { node: 0, problem: ReferenceProblem::Unfolded }) } else { Ok(()) }
}

/// Follows the edges that apply to the same value: they must not form a cycle or a chain of too many references.
fn check_chains(edges: &[Vec<(usize, Edge)>]) -> Result<(), ReferenceError> {
    #[derive(Clone, Copy)]
    enum Visit {
        Not,
        /// On the current path.
        Under,
        /// The length of the longest chain of references that starts here.
        Done(u32),
    }
    let mut visits = vec![Visit::Not; edges.len()];
    for start in 0..edges.len() {
        if !matches!(visits[start], Visit::Not) {
            continue;
        }
        // Each entry is a node, the index of its next edge, and the length of the longest chain found from it so far.
        let mut path = vec![(start, 0, 0)];
        visits[start] = Visit::Under;
        while let Some((node, next, most)) = path.last_mut() {
            let at = |problem| ReferenceError { node: *node as Index, problem };
            let Some((target, edge)) = edges[*node].get(*next) else {
                visits[*node] = Visit::Done(*most);
                path.pop();
                continue;
            };
            if *edge == Edge::Into {
                *next += 1;
                continue;
            }
            match visits[*target] {
                Visit::Not => {
                    visits[*target] = Visit::Under;
                    path.push((*target, 0, 0));
                }
                Visit::Under => return Err(at(ReferenceProblem::Circle)),
                Visit::Done(references) => {
                    *most = (*most).max(references + u32::from(*edge == Edge::Reference));
                    if *most > limits::CHAIN {
                        return Err(at(ReferenceProblem::Chain));
                    }
                    *next += 1;
                }
            }
        }
    }
    Ok(())
}

/// Strongly connected components, by Tarjan's algorithm without recursion.
struct Components {
    of_node: Vec<usize>,
    /// Size of each component: its nodes plus the sizes of all components that it refers to, once for each edge.
    sizes: Vec<usize>,
}

impl Components {
    fn of(edges: &[Vec<(usize, Edge)>]) -> Self {
        const NONE: usize = usize::MAX;
        let count = edges.len();
        let (mut order, mut low) = (vec![NONE; count], vec![NONE; count]);
        let mut components = Self { of_node: vec![NONE; count], sizes: Vec::new() };
        let mut open = Vec::new();
        let mut seen = 0;
        for start in 0..count {
            if order[start] != NONE {
                continue;
            }
            let mut path = vec![(start, 0)];
            while let Some((node, next)) = path.last_mut() {
                let node = *node;
                if *next == 0 {
                    (order[node], low[node]) = (seen, seen);
                    seen += 1;
                    open.push(node);
                }
                if let Some((target, _)) = edges[node].get(*next) {
                    *next += 1;
                    if order[*target] == NONE {
                        path.push((*target, 0));
                    } else if components.of_node[*target] == NONE {
                        low[node] = low[node].min(order[*target]);
                    }
                    continue;
                }
                path.pop();
                if let Some((parent, _)) = path.last() {
                    low[*parent] = low[*parent].min(low[node]);
                }
                if low[node] == order[node] {
                    let first = open.iter().rposition(|open| *open == node).unwrap_or_default();
                    components.close(&open.split_off(first), edges);
                }
            }
        }
        components
    }

    /// Records the nodes of one component. Tarjan's algorithm has already recorded the components that they refer to.
    fn close(&mut self, nodes: &[usize], edges: &[Vec<(usize, Edge)>]) {
        let component = self.sizes.len();
        for node in nodes {
            self.of_node[*node] = component;
        }
        let out = nodes.iter().flat_map(|node| &edges[*node]).map(|(target, _)| self.of_node[*target]);
        let below = out.filter(|target| *target != component).map(|target| self.sizes[target]);
        self.sizes.push(below.fold(nodes.len(), usize::saturating_add));
    }
}

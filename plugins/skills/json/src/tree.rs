//! Checks a parsed expression and inserts the meters.

use jmespath::{
    Rcvar, Variable,
    ast::{Ast, KeyValuePair},
};
use patchbay_sdk::{Failure, Result};

use crate::{
    fault, functions,
    meter::{BUILT, READ, WALKED},
};

/// Returns the metered tree. Refuses unknown functions, and expression references (`&…`) outside
/// function arguments.
pub(crate) fn prepare(ast: Ast) -> Result<Ast> {
    // The result is serialized, so it is read completely.
    Ok(metered(READ, node(ast)?))
}

fn node(ast: Ast) -> Result<Ast> {
    Ok(match ast {
        leaf @ (Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } | Ast::Literal { .. }) => leaf,
        Ast::Expref { offset, .. } => {
            return Err(Failure::invalid(format!(
                "'&' at column {} is not allowed there; only {} accept a reference, as in sort_by(@, &name)",
                offset + 1,
                functions::TAKE_REFERENCE.join(", ")
            )));
        }
        Ast::Slice { offset, start, stop, step } => Ast::Slice { offset, start, stop, step: clamped(step) },
        // A comparison with a number or a string, as in most filters, is one step and needs no meter.
        Ast::Comparison { offset, comparator, lhs, rhs } if is_scalar(&lhs) || is_scalar(&rhs) => {
            Ast::Comparison { offset, comparator, lhs: boxed(lhs)?, rhs: boxed(rhs)? }
        }
        Ast::Comparison { offset, comparator, lhs, rhs } => Ast::Comparison {
            offset,
            comparator,
            lhs: Box::new(metered(READ, node(*lhs)?)),
            rhs: Box::new(metered(READ, node(*rhs)?)),
        },
        Ast::Condition { offset, predicate, then } => {
            Ast::Condition { offset, predicate: boxed(predicate)?, then: boxed(then)? }
        }
        Ast::Flatten { offset, node } => Ast::Flatten { offset, node: boxed(node)? },
        Ast::ObjectValues { offset, node } => Ast::ObjectValues { offset, node: boxed(node)? },
        Ast::Not { offset, node } => Ast::Not { offset, node: boxed(node)? },
        Ast::And { offset, lhs, rhs } => Ast::And { offset, lhs: boxed(lhs)?, rhs: boxed(rhs)? },
        Ast::Or { offset, lhs, rhs } => Ast::Or { offset, lhs: boxed(lhs)?, rhs: boxed(rhs)? },
        Ast::Subexpr { offset, lhs, rhs } => Ast::Subexpr { offset, lhs: boxed(lhs)?, rhs: boxed(rhs)? },
        Ast::Projection { offset, lhs, rhs } => {
            let lhs = Box::new(walked(node(*lhs)?, size(&rhs)));
            metered(BUILT, Ast::Projection { offset, lhs, rhs: boxed(rhs)? })
        }
        Ast::MultiList { offset, elements } => {
            let elements = elements.into_iter().map(node).collect::<Result<_>>()?;
            metered(BUILT, Ast::MultiList { offset, elements })
        }
        Ast::MultiHash { offset, elements } => {
            let elements = elements
                .into_iter()
                .map(|KeyValuePair { key, value }| Ok(KeyValuePair { key, value: node(value)? }))
                .collect::<Result<_>>()?;
            metered(BUILT, Ast::MultiHash { offset, elements })
        }
        Ast::Function { offset, name, args } => {
            if !functions::NAMES.contains(&name.as_str()) {
                return Err(Failure::invalid(format!(
                    "unknown function '{}'; known are {}",
                    fault::clip(&name, 60),
                    functions::NAMES.join(", ")
                )));
            }
            let work = work(&name, &args);
            let args = args.into_iter().map(|arg| argument(&name, work, arg)).collect::<Result<_>>()?;
            metered(BUILT, Ast::Function { offset, name, args })
        }
    })
}

#[allow(clippy::boxed_local)] // The tree's own nodes are boxed.
fn boxed(ast: Box<Ast>) -> Result<Box<Ast>> {
    node(*ast).map(Box::new)
}

/// Returns the work of a function for each item of a list, in nodes of the tree.
fn work(function: &str, args: &[Ast]) -> usize {
    /// Comparisons per item when a long list is sorted.
    const SORT: usize = 16;
    let reference = args.iter().filter(|arg| matches!(arg, Ast::Expref { .. })).map(size).sum::<usize>();
    1 + reference + if matches!(function, "sort" | "sort_by") { SORT } else { 0 }
}

/// Wraps an argument of a function that does `work` for each item of a list.
fn argument(function: &str, work: usize, ast: Ast) -> Result<Ast> {
    let takes_reference = functions::TAKE_REFERENCE.contains(&function);
    Ok(match ast {
        Ast::Expref { offset, ast } if takes_reference => Ast::Expref { offset, ast: boxed(ast)? },
        ast if functions::READ_WHOLE.contains(&function) => metered(READ, node(ast)?),
        ast => walked(node(ast)?, work),
    })
}

fn is_scalar(ast: &Ast) -> bool {
    matches!(ast, Ast::Literal { value, .. } if !value.is_array() && !value.is_object())
}

/// Wraps a list whose items each pass through `work` nodes of the tree.
fn walked(ast: Ast, work: usize) -> Ast {
    let offset = offset(&ast);
    let work = Ast::Literal { offset, value: Rcvar::new(Variable::Number(work.into())) };
    Ast::Function { offset, name: WALKED.to_owned(), args: vec![ast, work] }
}

fn metered(meter: &str, ast: Ast) -> Ast {
    Ast::Function { offset: offset(&ast), name: meter.to_owned(), args: vec![ast] }
}

/// Limits the step of a slice: the library overflows when position plus step exceeds 32 bits. Any step beyond the
/// longest list selects one item.
fn clamped(step: i32) -> i32 {
    const BEYOND: i32 = 1 << 30;
    step.clamp(-BEYOND, BEYOND)
}

/// Returns the number of nodes of a tree.
fn size(ast: &Ast) -> usize {
    1 + match ast {
        Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } | Ast::Literal { .. } | Ast::Slice { .. } => 0,
        Ast::Expref { ast: node, .. }
        | Ast::Flatten { node, .. }
        | Ast::ObjectValues { node, .. }
        | Ast::Not { node, .. } => size(node),
        Ast::Condition { predicate: lhs, then: rhs, .. }
        | Ast::Comparison { lhs, rhs, .. }
        | Ast::Projection { lhs, rhs, .. }
        | Ast::And { lhs, rhs, .. }
        | Ast::Or { lhs, rhs, .. }
        | Ast::Subexpr { lhs, rhs, .. } => size(lhs) + size(rhs),
        Ast::Function { args: nodes, .. } | Ast::MultiList { elements: nodes, .. } => nodes.iter().map(size).sum(),
        Ast::MultiHash { elements, .. } => elements.iter().map(|pair| size(&pair.value)).sum(),
    }
}

fn offset(ast: &Ast) -> usize {
    match ast {
        Ast::Comparison { offset, .. }
        | Ast::Condition { offset, .. }
        | Ast::Identity { offset }
        | Ast::Expref { offset, .. }
        | Ast::Flatten { offset, .. }
        | Ast::Function { offset, .. }
        | Ast::Field { offset, .. }
        | Ast::Index { offset, .. }
        | Ast::Literal { offset, .. }
        | Ast::MultiList { offset, .. }
        | Ast::MultiHash { offset, .. }
        | Ast::Not { offset, .. }
        | Ast::Projection { offset, .. }
        | Ast::ObjectValues { offset, .. }
        | Ast::And { offset, .. }
        | Ast::Or { offset, .. }
        | Ast::Slice { offset, .. }
        | Ast::Subexpr { offset, .. } => *offset,
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{refusal, result};

    #[test]
    fn unknown_function_error_lists_all_functions() {
        let refusal = refusal("a || lenght(@)", "[]");
        assert!(refusal.contains("unknown function 'lenght'; known are abs, avg, "), "{refusal}");
    }

    #[test]
    fn expressions_cannot_call_meters() {
        assert_eq!(result(r#""(built)""#, r#"{"(built)": 1}"#), "1");
        assert!(refusal(r#""(built)"(@)"#, "1").contains("does not parse"));
    }

    #[test]
    fn references_are_only_allowed_as_arguments() {
        assert_eq!(result("sort_by(@, &a)[0].a", r#"[{"a":2},{"a":1}]"#), "1");
        for expression in ["&a", "[&a]", "a.&b", "to_string(&a)", "type(&a)", "sort_by(@, [&a])", "&a == &a"] {
            assert!(refusal(expression, "[]").contains("only map, max_by, min_by, sort_by accept a reference"));
        }
    }

    #[test]
    fn slice_with_a_huge_step_is_handled() {
        let list = "[0,1,2,3]";
        assert_eq!(result("[1::2147483647]", list), "[1]");
        assert_eq!(result("[2::-2147483647]", list), "[2]");
        assert_eq!(result("[-2147483647:2147483647:2]", list), "[0,2]");
        assert_eq!(result("[-2147483647]", list), "null");
        assert!(refusal("[::0]", list).contains("a step of 0"));
    }
}

//! Counts the memory and the steps of an expression while it runs.
//!
//! A short expression can build a value of astronomical size (`[@, @] | [@, @] | …`), and the library has no limits. So
//! `tree` wraps the parts that build, walk or read values in calls of the three functions here. Expressions cannot call
//! these functions, because their names are not valid identifiers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use jmespath::{Context, Rcvar, Runtime, SearchResult, Variable};

use crate::{
    document::{MAX_DEPTH, MAX_TEXT, MAX_VALUES},
    fault,
};

/// The approximate bytes of memory that a query may build besides the document: half of a call's memory.
const MAX_BUILT: usize = 32 << 20;
/// Maximum number of steps of a query: one for each visit of an item and a tree node, and for each compared value. A step takes
/// up to 200 instructions, so a query takes one or two seconds at most.
const MAX_STEPS: usize = 4_000_000;
/// The steps of one meter call itself.
const METER: usize = 8;
/// Bytes of text that count as one step.
const TEXT: usize = 16;

/// Wraps an expression that creates a value: counts the memory of its outermost level.
pub(crate) const BUILT: &str = "(built)";
/// Wraps a value that is iterated over: counts the items of a list, each with the weight in the second argument.
pub(crate) const WALKED: &str = "(walked)";
/// Wraps a value that is read completely: limits its size and depth and counts its values.
pub(crate) const READ: &str = "(read)";

/// Registers the three functions with new counters.
pub(crate) fn register(runtime: &mut Runtime) {
    // A function must be `Sync`, although nothing runs in parallel here.
    let steps = Arc::new(AtomicUsize::new(0));
    let built = AtomicUsize::new(0);
    register_one(runtime, BUILT, &steps, move |value, _| match count(&built, memory(value), MAX_BUILT) {
        Some(()) => Ok(0),
        None => Err(format!("it builds more than {MAX_BUILT} bytes of values; filter or slice earlier, as in [:100]")),
    });
    register_one(runtime, WALKED, &steps, |value, work| {
        Ok(match value {
            Variable::Array(items) => items.len().saturating_mul(1 + work),
            Variable::Object(members) => members.len(),
            Variable::String(text) => text.len() / TEXT,
            _ => 0,
        })
    });
    register_one(runtime, READ, &steps, |value, _| {
        let mut size = Size::default();
        size.add(value, 0)?;
        Ok(size.values + size.text / TEXT)
    });
}

fn register_one(
    runtime: &mut Runtime,
    name: &str,
    steps: &Arc<AtomicUsize>,
    check: impl Fn(&Variable, usize) -> Result<usize, String> + Send + Sync + 'static,
) {
    let steps = Arc::clone(steps);
    let function = move |args: &[Rcvar], context: &mut Context<'_>| -> SearchResult {
        let Some((value, more)) = args.split_first() else {
            return Err(fault::raise(context, "a meter takes a value"));
        };
        let work = more.first().and_then(|work| work.as_number()).unwrap_or(1.0) as usize;
        let more = check(value, work).map_err(|reason| fault::raise(context, reason))?;
        match count(&steps, METER + more, MAX_STEPS) {
            Some(()) => Ok(Rcvar::clone(value)),
            None => Err(fault::raise(context, too_many_steps())),
        }
    };
    runtime.register_function(name, Box::new(function));
}

/// Adds to a counter; an error if it exceeds its limit.
fn count(counter: &AtomicUsize, more: usize, limit: usize) -> Option<()> {
    let sum = counter.load(Relaxed).saturating_add(more);
    counter.store(sum, Relaxed);
    (sum <= limit).then_some(())
}

fn too_many_steps() -> String {
    format!("it takes more than {MAX_STEPS} steps on this document; filter or slice earlier, as in [:100]")
}

/// Returns the bytes of a value and its direct children; deeper values were counted when they were created.
fn memory(value: &Variable) -> usize {
    /// A reference-counted value and the slot that holds it.
    const VALUE: usize = 56;
    /// The smallest node of a map, which always has room for eleven members.
    const MAP: usize = 192;
    let flat = |value: &Variable| VALUE + value.as_string().map_or(0, String::len);
    flat(value)
        + match value {
            Variable::Array(items) => items.iter().map(|item| flat(item)).sum(),
            Variable::Object(members) => {
                MAP + members.iter().map(|(name, item)| 2 * name.len() + flat(item)).sum::<usize>()
            }
            _ => 0,
        }
}

/// The size of a value as JSON text; shared parts count each time.
#[derive(Default)]
struct Size {
    values: usize,
    text: usize,
}

impl Size {
    fn add(&mut self, value: &Variable, depth: usize) -> Result<(), String> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(format!("it creates a value of more than {MAX_VALUES} values"));
        }
        if depth == MAX_DEPTH && matches!(value, Variable::Array(_) | Variable::Object(_)) {
            return Err(format!("it creates a value that is nested deeper than {MAX_DEPTH} levels"));
        }
        match value {
            Variable::String(text) => self.add_text(text),
            Variable::Array(items) => items.iter().try_for_each(|item| self.add(item, depth + 1)),
            Variable::Object(members) => members.iter().try_for_each(|(name, item)| {
                self.add_text(name)?;
                self.add(item, depth + 1)
            }),
            _ => Ok(()),
        }
    }

    fn add_text(&mut self, text: &str) -> Result<(), String> {
        self.text += text.len();
        if self.text > MAX_TEXT {
            return Err(format!("it creates a value with more than {MAX_TEXT} bytes of text"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{refusal, result};

    #[test]
    fn doubling_values_are_stopped() {
        let doubled = |times| vec!["[@, @]"; times].join(" | ");
        assert!(result(&doubled(10), "1").starts_with("[[["));
        assert!(refusal(&doubled(60), "1").contains("more than 200000 values"));
        let flat = vec!["[@, @][]"; 30].join(" | ");
        assert!(refusal(&flat, "[1]").contains("builds more than 33554432 bytes"));
    }

    #[test]
    fn comparing_doubled_values_is_stopped() {
        let doubled = vec!["[@, @]"; 40].join(" | ");
        assert!(refusal(&format!("{doubled} | @ == @"), "1").contains("more than 200000 values"));
        assert!(refusal(&format!("{doubled} | to_string(@)"), "1").contains("more than 200000 values"));
        assert!(refusal(&format!("{doubled} | contains(@, @)"), "1").contains("more than 200000 values"));
    }

    #[test]
    fn multiplying_text_is_stopped() {
        let list = format!("[{}]", vec!["\"\""; 10_000].join(","));
        let glue = "x".repeat(1_000);
        assert!(refusal(&format!("join('{glue}', @)"), &list).contains("a string of more than 1048576 bytes"));
        let escaped = format!("{}@{}", "to_string([".repeat(40), "])".repeat(40));
        assert!(refusal(&escaped, r#""\"""#).contains("more than 1048576 bytes of text"));
        let copies = format!("[*].to_string([@, `\"{}\"`])", "x".repeat(3_000));
        assert!(refusal(&copies, &list).contains("builds more than 33554432 bytes"));
    }

    #[test]
    fn too_deep_results_are_stopped() {
        let deep = format!("{}@{}", "[".repeat(99), "]".repeat(99));
        assert!(result(&deep, "[1]").starts_with("[[["));
        assert!(refusal(&deep, "[[1]]").contains("nested deeper than 100 levels"));
    }

    #[test]
    fn repeated_iteration_over_a_long_list_is_stopped() {
        let list = format!("[0{}]", ",0".repeat(99_999));
        let expression = format!("[{}]", vec!["[*].a"; 100].join(","));
        assert!(refusal(&expression, &list).contains("more than 4000000 steps"));
        assert_eq!(result(&format!("[{}][]", vec!["[*].a"; 15].join(",")), &list), "[]");
        let long = format!("[?{}]", vec!["a.b"; 30].join("||"));
        assert!(refusal(&long, &list).contains("more than 4000000 steps"));
        let sums = format!("[{}]", vec!["sum(@)"; 100].join(","));
        assert!(refusal(&sums, &list).contains("more than 4000000 steps"));
        assert!(refusal("[?@ == @] | [?@ == @] | [?@ == @]", &list).contains("more than 4000000 steps"));
        assert_eq!(result("[?@ == `0`] | [?@ == `0`] | [?`0` == @] | length(@)", &list), "100000");
    }
}

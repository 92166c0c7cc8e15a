//! Counts what an expression uses while it runs.
//!
//! A short expression can ask for a value of astronomical size (`[@, @] | [@, @] | …`), and the library counts
//! nothing. So `tree` wraps the parts that build, walk or read values into calls of the three functions here. An
//! expression cannot call them itself: their names are no identifiers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use jmespath::{Context, Rcvar, Runtime, SearchResult, Variable};

use crate::{
    document::{MAX_DEPTH, MAX_TEXT, MAX_VALUES},
    fault,
};

/// Bytes of memory, roughly, that a query may build beside the document; half of what a call has.
const MAX_BUILT: usize = 32 << 20;
/// Steps that a query may take, one for each item and node of the tree that it goes through, or value that is compared.
/// One is up to 200 instructions, which keeps a query inside a call's second or two of work.
const MAX_STEPS: usize = 4_000_000;
/// Steps of going through a meter, whatever it finds.
const METER: usize = 8;
/// Bytes of text that are one step.
const TEXT: usize = 16;

/// Wraps what makes a new value: counts the memory of its outermost level.
pub(crate) const BUILT: &str = "(built)";
/// Wraps what is about to be walked over: counts a list's items, each as heavy as the second
/// argument says.
pub(crate) const WALKED: &str = "(walked)";
/// Wraps a value that is about to be read whole: bounds its size and depth, counts its values.
pub(crate) const READ: &str = "(read)";

/// Registers the three functions with fresh counters.
pub(crate) fn register(runtime: &mut Runtime) {
    // A function must be `Sync`, though nothing here runs in parallel.
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

/// Adds to a counter, unless that takes it over its limit.
fn count(counter: &AtomicUsize, more: usize, limit: usize) -> Option<()> {
    let sum = counter.load(Relaxed).saturating_add(more);
    counter.store(sum, Relaxed);
    (sum <= limit).then_some(())
}

fn too_many_steps() -> String {
    format!("it takes more than {MAX_STEPS} steps on this document; filter or slice earlier, as in [:100]")
}

/// Bytes of a value and the values directly in it; those below were counted when they were built.
fn memory(value: &Variable) -> usize {
    /// A reference-counted value and the slot that holds it.
    const VALUE: usize = 56;
    /// The smallest node of a map: it has room for eleven members, used or not.
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

/// The size of a value as if it were written out, in which a part that occurs twice counts twice.
#[derive(Default)]
struct Size {
    values: usize,
    text: usize,
}

impl Size {
    fn add(&mut self, value: &Variable, depth: usize) -> Result<(), String> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(format!("it makes a value of more than {MAX_VALUES} values"));
        }
        if depth == MAX_DEPTH && matches!(value, Variable::Array(_) | Variable::Object(_)) {
            return Err(format!("it makes a value that is nested deeper than {MAX_DEPTH} levels"));
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
            return Err(format!("it makes a value with more than {MAX_TEXT} bytes of text"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{refusal, result};

    #[test]
    fn a_value_that_doubles_is_stopped() {
        let doubled = |times| vec!["[@, @]"; times].join(" | ");
        assert!(result(&doubled(10), "1").starts_with("[[["));
        assert!(refusal(&doubled(60), "1").contains("more than 200000 values"));
        let flat = vec!["[@, @][]"; 30].join(" | ");
        assert!(refusal(&flat, "[1]").contains("builds more than 33554432 bytes"));
    }

    #[test]
    fn comparing_what_doubled_is_stopped() {
        let doubled = vec!["[@, @]"; 40].join(" | ");
        assert!(refusal(&format!("{doubled} | @ == @"), "1").contains("more than 200000 values"));
        assert!(refusal(&format!("{doubled} | to_string(@)"), "1").contains("more than 200000 values"));
        assert!(refusal(&format!("{doubled} | contains(@, @)"), "1").contains("more than 200000 values"));
    }

    #[test]
    fn text_that_multiplies_is_stopped() {
        let list = format!("[{}]", vec!["\"\""; 10_000].join(","));
        let glue = "x".repeat(1_000);
        assert!(refusal(&format!("join('{glue}', @)"), &list).contains("more than 1048576 bytes of text"));
        let escaped = format!("{}@{}", "to_string([".repeat(40), "])".repeat(40));
        assert!(refusal(&escaped, r#""\"""#).contains("more than 1048576 bytes of text"));
        let copies = format!("[*].to_string([@, `\"{}\"`])", "x".repeat(3_000));
        assert!(refusal(&copies, &list).contains("builds more than 33554432 bytes"));
    }

    #[test]
    fn a_result_of_too_many_levels_is_stopped() {
        let deep = format!("{}@{}", "[".repeat(99), "]".repeat(99));
        assert!(result(&deep, "[1]").starts_with("[[["));
        assert!(refusal(&deep, "[[1]]").contains("nested deeper than 100 levels"));
    }

    #[test]
    fn walking_over_a_long_list_again_and_again_is_stopped() {
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

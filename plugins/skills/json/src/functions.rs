//! The functions of JMESPath, with replacements for some of the library's.
//!
//! In the library, sums are floats (`sum` of `[1, 2]` is `3.0`), the average of an empty list fails, `to_number`
//! returns any JSON value, and `join` has no limit.

use jmespath::{
    Context, Rcvar, Runtime, Variable,
    functions::{ArgumentType, CustomFunction, Signature},
};
use serde_json::Number;

use crate::{document::MAX_TEXT, fault};

pub(crate) const NAMES: [&str; 26] = [
    "abs",
    "avg",
    "ceil",
    "contains",
    "ends_with",
    "floor",
    "join",
    "keys",
    "length",
    "map",
    "max",
    "max_by",
    "merge",
    "min",
    "min_by",
    "not_null",
    "reverse",
    "sort",
    "sort_by",
    "starts_with",
    "sum",
    "to_array",
    "to_number",
    "to_string",
    "type",
    "values",
];

/// Functions that apply an expression reference (`&…`) to each item of a list.
pub(crate) const TAKE_REFERENCE: [&str; 4] = ["map", "max_by", "min_by", "sort_by"];

/// Functions that read all levels of their arguments.
pub(crate) const READ_WHOLE: [&str; 2] = ["contains", "to_string"];

pub(crate) fn register(runtime: &mut Runtime) {
    use ArgumentType::{Any, Number, String, TypedArray};
    runtime.register_builtin_functions();
    let numbers = || TypedArray(Box::new(Number));
    own(runtime, "abs", vec![Number], |args| number(args, 0).map(abs));
    own(runtime, "ceil", vec![Number], |args| number(args, 0).map(|n| whole(n, f64::ceil)));
    own(runtime, "floor", vec![Number], |args| number(args, 0).map(|n| whole(n, f64::floor)));
    own(runtime, "sum", vec![numbers()], |args| sum(list(args, 0)?));
    own(runtime, "avg", vec![numbers()], |args| avg(list(args, 0)?));
    own(runtime, "to_number", vec![Any], |args| Ok(to_number(&args[0])));
    own(runtime, "join", vec![String, TypedArray(Box::new(String))], |args| join(text(args, 0)?, list(args, 1)?));
}

type Answer<T = Variable> = Result<T, String>;

fn own(
    runtime: &mut Runtime,
    name: &str,
    takes: Vec<ArgumentType>,
    gives: impl Fn(&[Rcvar]) -> Answer + Send + Sync + 'static,
) {
    let function = move |args: &[Rcvar], context: &mut Context<'_>| {
        gives(args).map(Rcvar::new).map_err(|reason| fault::raise(context, reason))
    };
    let function = CustomFunction::new(Signature::new(takes, None), Box::new(function));
    runtime.register_function(name, Box::new(function));
}

// The library checks the signature before it calls these.
const UNCHECKED: &str = "an argument has the wrong type";

fn number(args: &[Rcvar], index: usize) -> Answer<&Number> {
    as_number(&args[index]).ok_or_else(|| UNCHECKED.to_owned())
}

fn list(args: &[Rcvar], index: usize) -> Answer<&[Rcvar]> {
    args[index].as_array().map(Vec::as_slice).ok_or_else(|| UNCHECKED.to_owned())
}

fn text(args: &[Rcvar], index: usize) -> Answer<&str> {
    args[index].as_string().map(String::as_str).ok_or_else(|| UNCHECKED.to_owned())
}

fn as_number(value: &Variable) -> Option<&Number> {
    match value {
        Variable::Number(number) => Some(number),
        _ => None,
    }
}

fn as_integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn integer(value: i128) -> Option<Number> {
    u64::try_from(value).map(Number::from).or_else(|_| i64::try_from(value).map(Number::from)).ok()
}

fn as_float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

/// Converts a computed float to an integer if it is whole: `3`, not `3.0`.
fn float(value: f64) -> Answer {
    /// The largest integer up to which every integer is a distinct float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = if value.fract() == 0.0 && value.abs() <= EXACT {
        Some(Number::from(value as i64))
    } else {
        Number::from_f64(value)
    };
    number.map(Variable::Number).ok_or_else(|| "the result is too large for a number".to_owned())
}

fn abs(number: &Number) -> Variable {
    match as_integer(number).and_then(|value| integer(value.abs())) {
        Some(exact) => Variable::Number(exact),
        None => float(as_float(number).abs()).unwrap_or(Variable::Null),
    }
}

fn whole(number: &Number, round: fn(f64) -> f64) -> Variable {
    match as_integer(number) {
        Some(_) => Variable::Number(number.clone()),
        None => float(round(as_float(number))).unwrap_or(Variable::Null),
    }
}

fn sum(items: &[Rcvar]) -> Answer {
    let numbers = || items.iter().filter_map(|item| as_number(item));
    // The sum of 200,000 integers of 64 bits fits 128 bits.
    let exact = numbers().map(as_integer).sum::<Option<i128>>().and_then(integer);
    match exact {
        Some(exact) => Ok(Variable::Number(exact)),
        None => float(numbers().map(as_float).sum()),
    }
}

fn avg(items: &[Rcvar]) -> Answer {
    if items.is_empty() {
        return Ok(Variable::Null);
    }
    let sum: f64 = items.iter().filter_map(|item| as_number(item)).map(as_float).sum();
    float(sum / items.len() as f64)
}

fn to_number(value: &Variable) -> Variable {
    match value {
        Variable::Number(_) => value.clone(),
        Variable::String(text) => serde_json::from_str(text).map_or(Variable::Null, Variable::Number),
        _ => Variable::Null,
    }
}

fn join(glue: &str, items: &[Rcvar]) -> Answer {
    let items: Vec<&str> = items.iter().filter_map(|item| item.as_string()).map(String::as_str).collect();
    let length = items
        .iter()
        .map(|item| item.len())
        .fold(glue.len().saturating_mul(items.len().saturating_sub(1)), usize::saturating_add);
    if length > MAX_TEXT {
        return Err(format!("join creates a string of more than {MAX_TEXT} bytes"));
    }
    Ok(Variable::String(items.join(glue)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{refusal, result};

    #[test]
    fn list_of_functions_is_sorted_and_complete() {
        assert!(NAMES.is_sorted());
        let mut runtime = Runtime::new();
        register(&mut runtime);
        for name in NAMES {
            assert!(runtime.get_function(name).is_some(), "{name}");
        }
        for name in TAKE_REFERENCE.iter().chain(&READ_WHOLE) {
            assert!(NAMES.contains(name), "{name}");
        }
    }

    #[test]
    fn sums_of_integers_are_integers() {
        for (expression, document, expected) in [
            ("sum(@)", "[1, 2]", "3"),
            ("sum(@)", "[9007199254740993, 1]", "9007199254740994"),
            ("sum(@)", "[18446744073709551615, -1]", "18446744073709551614"),
            ("sum(@)", "[0.5, 1.5, 0.25]", "2.25"),
            ("sum(@)", "[]", "0"),
            ("abs(@)", "-9223372036854775808", "9223372036854775808"),
            ("abs(@)", "-1.5", "1.5"),
            ("ceil(@)", "1.2", "2"),
            ("floor(@)", "-1.2", "-2"),
            ("floor(@)", "9007199254740993", "9007199254740993"),
            ("floor(@)", "1e300", "1e+300"),
            ("avg(@)", "[1, 2]", "1.5"),
            ("avg(@)", "[1, 3]", "2"),
            ("avg(@)", "[]", "null"),
            ("length(@)", "[1, 2]", "2"),
        ] {
            assert_eq!(result(expression, document), expected, "{expression} {document}");
        }
    }

    #[test]
    fn sums_beyond_64_bits_become_floats_or_errors() {
        assert_eq!(result("sum(@)", "[18446744073709551615, 1]"), "1.8446744073709552e+19");
        assert!(refusal("sum(@)", "[1e308, 1e308]").contains("too large for a number"));
    }

    #[test]
    fn to_number_returns_only_numbers() {
        assert_eq!(result("map(&to_number(@), @)", r#"["12", "1.5", "[1]", "x", "", true, 7]"#), {
            "[12,1.5,null,null,null,null,7]"
        });
    }

    #[test]
    fn join_concatenates_strings() {
        assert_eq!(result("join(', ', @)", r#"["a", "b"]"#), r#""a, b""#);
        assert_eq!(result("join(', ', @)", "[]"), r#""""#);
    }

    #[test]
    fn wrong_argument_is_named() {
        assert!(refusal("sum(@)", r#"["a"]"#).contains("argument 1 must be array[number], not array"));
        assert!(refusal("abs(a, b)", "{}").contains("a function takes 1 arguments, not 2"));
        assert!(refusal("join(',')", "{}").contains("a function takes 2 arguments, not 1"));
        assert!(refusal("sort_by(@, &a)", r#"[{"a": 1}, {"a": "x"}]"#).contains("not string"));
    }
}

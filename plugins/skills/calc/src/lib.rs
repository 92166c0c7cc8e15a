//! The skill `calc`: exact arithmetic on big numbers and on quantities of data and time.
//!
//! One tool, `eval`, evaluates one expression and returns one line. All values are rational numbers, so nothing is rounded
//! unless the expression asks for it; floats and irrational numbers are not supported. Expressions are not trusted: their
//! length, depth, numbers and work are limited, and an expression that exceeds a limit fails with a clear error.
//!
//! The steps of a call:
//!
//! 1. `lex` and `literal` split the text into tokens.
//! 2. `parse` compiles them into a flat `program`.
//! 3. `eval` and `function` compute the value with `number` and `unit`.
//! 4. `format` prints it.
//!
//! `error` is the error with its column; `limits` has all limits with their reasons. `SKILL.md` describes the language.

#![deny(missing_docs)]

#[cfg(test)]
mod cases;
mod error;
mod eval;
mod format;
mod function;
mod lex;
mod limits;
mod literal;
mod number;
mod parse;
mod program;
mod unit;

use patchbay_sdk::{Result, skill};

/// The input of the tool `eval`.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Such as `2^100`, `(1/3 + 0.25) * 12`, `3 GiB / 100 Mbit/s` or `255 in hex`.
    pub expression: String,
}

skill! {
    /// Computes an expression exactly: integers of any length, fractions, decimals, and quantities of data and time.
    ///
    /// Operators: + - * / ^ (whole exponents), % (sign of the divisor), ! (factorial).
    /// Functions: abs sign floor ceil round(x[, digits]) min max gcd lcm sqrt(x[, digits]) mod div numerator denominator.
    /// Units: bit and B with k M G T P E (powers of 1000) or Ki Mi Gi Ti Pi Ei (powers of 1024); ns us ms s min h d week;
    /// rates such as MB/s.
    /// `in UNIT`, `in hex`, `in oct` or `in bin` at the end converts.
    #[extra("read-only" = "true", "kind" = "think")]
    fn eval(input: Input) -> Result<String> {
        calculate(&input.expression).map_err(error::Error::into_failure)
    }
}

fn calculate(text: &str) -> error::Result<String> {
    let program = parse::parse(text)?;
    let value = eval::run(&program)?;
    format::answer(&program, value)
}

#[cfg(test)]
fn run_text(text: &str) -> error::Result<eval::Value> {
    eval::run(&parse::parse(text)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn input(expression: &str) -> Input {
        Input { expression: expression.to_owned() }
    }

    /// Reads the examples of the documentation, `EXPRESSION` → `ANSWER`.
    #[test]
    fn examples_of_the_documentation_are_correct() {
        let mut count = 0;
        for line in include_str!("../SKILL.md").lines().filter(|line| line.contains(" → ")) {
            let mut parts = line.split('`');
            let (Some(_), Some(expression), Some(" → "), Some(answer)) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                panic!("no example: {line}");
            };
            let found = calculate(expression).unwrap_or_else(|error| error.to_string());
            assert_eq!(found, answer, "{expression}");
            count += 1;
        }
        assert!(count >= 30, "{count} examples");
    }

    #[test]
    fn failures_have_a_kind_a_column_and_a_message() {
        let failure = eval(input("1 MB + 1 s")).unwrap_err();
        assert_eq!(failure.kind(), "unit-mismatch");
        assert_eq!(failure.message(), "column 6: cannot add time to data; give both the same kind of unit");
        for (text, kind) in [("1 +", "invalid-input"), ("1/0", "undefined"), ("2^999999", "too-large")] {
            assert_eq!(eval(input(text)).unwrap_err().kind(), kind, "{text}");
        }
    }

    #[test]
    fn input_has_only_an_expression() {
        use patchbay_sdk::serde_json::from_str;
        assert_eq!(from_str::<Input>(r#"{"expression":"1+1"}"#).unwrap().expression, "1+1");
        assert!(from_str::<Input>(r#"{"expression":"1+1","digits":3}"#).is_err());
        assert!(from_str::<Input>("{}").is_err());
    }

    #[test]
    fn answer_is_one_line() {
        assert_eq!(eval(input("1\n+\n1")).unwrap(), "2");
    }

    /// Text that is almost an expression. It reaches more of the code than random text does.
    fn nearly() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "0", "1", "7", "0.5", "1e9", "1e-40", "1e39000", "0xff", "9999", "+", "-", "*", "/", "%", "^", "!", "(",
            ")", ",", " in ", " to ", "hex", " B", " MiB", " s", " min", "/s", "abs(", "max(", "gcd(", "lcm(", "sqrt(",
            "round(", "mod(", "div(", "_", "e", ".", "µs", " ",
        ]);
        prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn random_text_never_panics(text in any::<String>()) {
            let _ = calculate(&text);
        }

        #[test]
        fn near_expressions_never_panic(text in nearly()) {
            match calculate(&text) {
                Ok(line) => prop_assert!(!line.is_empty() && !line.contains('\n')),
                Err(error) => {
                    let message = error.to_string();
                    prop_assert!(message.len() < 500 && !message.contains('\n'), "{}", message);
                    prop_assert!(error.column.is_none_or(|column| column <= text.chars().count() + 1));
                }
            }
        }

        #[test]
        fn whole_numbers_are_returned_unchanged(digits in "-?[1-9][0-9]{0,400}") {
            prop_assert_eq!(calculate(&digits).unwrap(), digits.clone());
            prop_assert_eq!(calculate(&format!("({digits} + 3) - 3")).unwrap(), digits);
        }

        #[test]
        fn radix_conversions_round_trip(number in any::<i128>()) {
            for radix in ["hex", "oct", "bin"] {
                let there = calculate(&format!("{number} in {radix}")).unwrap();
                prop_assert_eq!(calculate(&there).unwrap(), number.to_string());
            }
        }

        #[test]
        fn units_cancel(number in 1u64.., unit in 0usize..6) {
            let unit = ["B", "TiB", "Mbit", "us", "week", "kB/s"][unit];
            prop_assert_eq!(calculate(&format!("{number} {unit} / {number} {unit}")).unwrap(), "1");
        }
    }
}

//! Tests of the parser: precedence, units, errors and limits.

use super::*;
use crate::error::Kind;

/// Returns the program as text, in the order of execution.
fn program(text: &str) -> String {
    let show = |step: &Step| match &step.operation {
        Operation::Push(literal) => literal.text().to_owned(),
        Operation::Unit(measure) => measure.to_string(),
        Operation::Negate => "neg".to_owned(),
        Operation::Factorial => "!".to_owned(),
        Operation::Add => "+".to_owned(),
        Operation::Subtract => "-".to_owned(),
        Operation::Multiply => "*".to_owned(),
        Operation::Divide => "/".to_owned(),
        Operation::Remainder => "%".to_owned(),
        Operation::Power => "^".to_owned(),
        Operation::Call(function, count) => format!("{}/{count}", function.name()),
    };
    match parse(text) {
        Ok(program) => program.steps.iter().map(show).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    }
}

#[test]
fn precedence() {
    for (text, expected) in [
        ("1+2*3", "1 2 3 * +"),
        ("1-2-3", "1 2 - 3 -"),
        ("8/4/2", "8 4 / 2 /"),
        ("(1+2)*3", "1 2 + 3 *"),
        ("2^3^2", "2 3 2 ^ ^"),
        ("-2^2", "2 2 ^ neg"),
        ("2^-2", "2 2 neg ^"),
        ("2^-3^2", "2 3 2 ^ neg ^"),
        ("--+-2", "2 neg"),
        ("--2", "2"),
        ("-3!", "3 ! neg"),
        ("3!!", "3 ! !"),
        ("2^3!", "2 3 ! ^"),
        ("7%4*2", "7 4 % 2 *"),
        ("2*-3", "2 3 neg *"),
        ("max(1, 2+3)/gcd(4,6)", "1 2 3 + max/2 4 6 gcd/2 /"),
    ] {
        assert_eq!(program(text), expected, "{text}");
    }
}

#[test]
fn units_bind_to_the_number_before_them() {
    for (text, expected) in [
        ("3 GiB", "3 GiB *"),
        ("2^10 B", "2 10 ^ B *"),
        ("2^-1 s", "2 1 neg ^ s *"),
        ("-2 s", "2 s * neg"),
        ("3 s^2", "3 s^2 *"),
        ("(3 s)^2", "3 s * 2 ^"),
        ("(1+2) MB", "1 2 + MB *"),
        ("5! s", "5 ! s *"),
        ("1 GiB / 100 Mbit/s", "1 GiB * 100 Mbit/s * /"),
        ("6 MB/s^2 * 2 s", "6 MB/s^2 * 2 s * *"),
        ("10 MB / 2 s", "10 MB * 2 s * /"),
        ("10 MB / s / s", "10 MB/s/s *"),
        ("10 s / min(2, 3)", "10 s * 2 3 min/2 /"),
        ("min(2, 3) min", "2 3 min/2 min *"),
        ("MB / s", "MB s /"),
        ("1 / s / B", "1 s / B /"),
        ("5 Mbps", "5 Mbit/s *"),
    ] {
        assert_eq!(program(text), expected, "{text}");
    }
}

#[test]
fn conversions() {
    let target = |text: &str| {
        parse(text).unwrap().target.map(|(target, column)| match target {
            Target::Units(measure) => (measure.to_string(), column),
            other => (format!("{other:?}"), column),
        })
    };
    assert_eq!(target("1 h"), None);
    assert_eq!(target("1 h in s"), Some(("s".into(), 8)));
    assert_eq!(target("1 h to min"), Some(("min".into(), 8)));
    assert_eq!(target("5 MB/s in Mbit / h"), Some(("Mbit/h".into(), 11)));
    assert_eq!(target("5 MB*s in B*s"), Some(("B*s".into(), 11)));
    assert_eq!(target("255 in hex"), Some(("Hexadecimal".into(), 8)));
    assert_eq!(target("255 to oct"), Some(("Octal".into(), 8)));
    assert_eq!(target("255 in bin"), Some(("Binary".into(), 8)));
}

#[test]
fn errors_name_the_column_and_a_remedy() {
    for (text, expected) in [
        ("  ", "the expression is empty; write something such as 2^100 or 3 GiB / 100 Mbit/s"),
        ("1 +", "column 4: expected a value, found the end"),
        ("1 + * 2", "column 5: expected a value, found '*'"),
        ("2**3", "column 2: write a power with ^, not with **"),
        ("7//2", "column 2: write a quotient without its remainder as div(a, b)"),
        ("20% * 5", "column 3: % is the remainder of a division; for a percentage write / 100"),
        ("15% of 80", "column 3: % is the remainder of a division; for a percentage write / 100"),
        ("20% + 5", "column 3: % is the remainder of a division; for a percentage write / 100"),
        ("20%", "column 3: % is the remainder of a division; for a percentage write / 100"),
        ("(1 + 2", "column 7: the parenthesis in column 1 is not closed; add a )"),
        ("1)", "column 2: this ) closes nothing; remove it"),
        (
            "1,000",
            "column 2: a comma stands only between the arguments of a function; \
             digits are grouped with _, and fractions have a point",
        ),
        ("1 2", "column 3: expected an operator such as + or * before 2"),
        ("1.2.3", "column 4: expected an operator such as + or * before .3"),
        ("2 (3)", "column 3: expected an operator such as + or * before '('"),
        ("1 h 30 min", "column 5: expected an operator such as + or * before 30"),
        ("MB s", "column 4: two units are next to each other; write * or / between them"),
        ("(1 h in s) * 2", "column 6: 'in' may appear only once, at the end of the whole expression"),
        ("1 h in s in min", "column 10: 'in' may appear only once, at the end of the whole expression"),
        ("1 h in", "column 7: expected a unit, hex, oct or bin, found the end"),
        ("1 h in 5", "column 8: expected a unit, hex, oct or bin, found 5"),
        ("in s", "column 1: expected a value, found 'in'"),
        ("1 KB", "column 3: 'KB' is not a unit; did you mean kbit, kB or KiB?"),
        ("2 H", "column 3: 'H' is not a unit; did you mean h?"),
        (
            "3 apples",
            "column 3: 'apples' is not a unit; units are bit, B, both with k M G T P E or Ki Mi Gi Ti Pi Ei before; \
             ns, us, ms, s, min, h, d, week",
        ),
        (
            "2 * pi",
            "column 5: 'pi' is irrational and everything here is exact; write as many of its digits as you need",
        ),
        ("1 + sqrt", "column 5: 'sqrt' is a function; write its arguments in parentheses"),
        (
            "sin(1)",
            "column 1: 'sin' is not a function; use one of abs, sign, floor, ceil, round, min, max, gcd, lcm, sqrt, \
             mod, div, numerator, denominator",
        ),
        ("sqrt()", "column 1: sqrt takes 1 or 2 arguments, not 0"),
        ("div(1)", "column 1: div takes 2 arguments, not 1"),
        ("abs(1, 2)", "column 1: abs takes 1 argument, not 2"),
        ("max()", "column 1: max takes at least 1 argument, not 0"),
        ("3 s^x", "column 5: expected a whole number as the power of a unit, found 'x'"),
        ("3 s^0.5", "column 5: the power of a unit must be a small whole number"),
        ("3 s^101", "column 5: units can only have powers from -100 to 100"),
    ] {
        assert_eq!(program(text), expected, "{text}");
    }
}

#[test]
fn length_is_bounded() {
    assert!(parse(&format!("1{}", " ".repeat(MAX_EXPRESSION_BYTES - 1))).is_ok());
    let error = parse(&"1".repeat(MAX_EXPRESSION_BYTES + 1)).unwrap_err();
    assert_eq!(error.kind, Kind::TooLarge);
    assert_eq!(error.to_string(), "the expression has 10001 bytes, and the limit is 10000; split it");
}

#[test]
fn depth_is_bounded() {
    let nested = |open: &str, depth: usize, close: &str| {
        parse(&format!("{}1{}", open.repeat(depth), close.repeat(depth))).map(|_| ())
    };
    for (open, close) in [("(", ")"), ("abs(", ")"), ("1^", ""), ("1^-(", ")"), ("-(", ")")] {
        let levels = if open == "1^-(" { MAX_DEPTH / 2 } else { MAX_DEPTH };
        nested(open, levels, close).unwrap_or_else(|error| panic!("{open}: {error}"));
        let error = nested(open, levels + 1, close).unwrap_err();
        assert_eq!(error.kind, Kind::TooLarge, "{open}");
        assert_eq!(nested(open, 2_000, close).unwrap_err().kind, Kind::TooLarge, "{open}");
    }
}

#[test]
fn long_flat_expressions_are_accepted() {
    assert!(parse(&format!("{}1", "1+".repeat(4_999))).is_ok());
    assert!(parse(&format!("{}1", "-".repeat(9_999))).is_ok());
    assert!(parse(&format!("max({}1)", "1,".repeat(4_000))).is_ok());
    assert!(parse(&format!("1{}", "!".repeat(9_999))).is_ok());
}

//! Generates the tables of `docs/limits.md`: the limits that `config.toml` sets, and the constants of the host that bound something.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use patchbay_core::Code;
use syn::{
    Attribute, BinOp, Expr, ExprCall, Ident, ImplItemConst, ItemConst, ItemMod, Lit, Meta, Type,
    spanned::Spanned as _,
    visit::{self, Visit},
};

use crate::{documents::assert_generated, repository, shape};

/// A constant is a limit if its documentation contains one of these words.
const WORDS: &[&str] = &[
    "at once",
    "concurrent",
    "deeper",
    "deepest",
    "highest",
    "how long",
    "how many",
    "how often",
    "interval",
    "kept",
    "largest",
    "limit",
    "limits",
    "longer",
    "longest",
    "maximum",
    "more than",
    "most",
    "number of",
    "seconds",
    "wait",
];

/// Types of amounts.
const AMOUNTS: &[&str] = &["Duration", "NonZeroUsize", "u8", "u16", "u32", "u64", "usize", "i64"];

#[test]
fn limits_that_the_configuration_sets() {
    let config = fs::read_to_string(repository("docs/config.md")).unwrap();
    let mut text = String::new();
    for section in config.split("\n## ").skip(1) {
        let heading = section.lines().next().unwrap();
        let rows: Vec<_> = section.lines().filter_map(configured).collect();
        if !rows.is_empty() {
            write!(text, "\n### {heading}\n\n| key | default | values | what and why | code |\n").unwrap();
            writeln!(text, "| --- | --- | --- | --- | --- |\n{}", rows.join("\n")).unwrap();
        }
    }
    assert!(text.lines().count() > 50, "the keys are not found");
    assert_generated("docs/limits.md", "configured", &text);
}

/// Returns the row for a key of `config.toml` whose value is an amount. The code of an exceeded limit has its own column.
fn configured(row: &str) -> Option<String> {
    let [key, default, values, why] = row.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let is_amount = values.contains(" to ") || values.contains("or more") || values == "a number";
    let codes = why.split('`').filter(|word| Code::TABLE.iter().any(|(_, code, _)| code.as_str() == *word));
    let codes: Vec<_> = codes.map(|code| format!("`{code}`")).collect();
    let why = codes.iter().fold(why.to_owned(), |why, code| why.replace(&format!(" ({code})"), ""));
    is_amount.then(|| format!("| {key} | {default} | {values} | {why} | {} |", codes.join(", ")))
}

#[test]
fn fixed_limits() {
    let (mut text, mut count) = (String::new(), 0);
    for (name, sources) in shape::crates() {
        let mut rows = String::new();
        for source in &sources {
            let mut constants = Constants::default();
            constants.visit_file(&source.syntax);
            let file = source.path.strip_prefix(&format!("{name}/src/")).unwrap();
            for (constant, value, why) in constants.limits() {
                count += 1;
                writeln!(rows, "| `{constant}` | {value} | {why} | `{file}` |").unwrap();
            }
        }
        if !rows.is_empty() {
            write!(
                text,
                "\n### {name}\n\n| constant | value | what and why | file |\n| --- | --- | --- | --- |\n{rows}"
            )
            .unwrap();
        }
    }
    assert!(count > 300, "the constants are not found: {count}");
    assert_generated("docs/limits.md", "fixed", &text);
}

/// A file's constants that are amounts, in order.
#[derive(Default)]
struct Constants(Vec<Constant>);

struct Constant {
    name: String,
    value: Expr,
    why: String,
    /// The first line, including its documentation, and the last line.
    lines: (usize, usize),
}

impl<'ast> Visit<'ast> for Constants {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !shape::is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_const(&mut self, item: &'ast ItemConst) {
        if shape::is_test(&item.attrs) {
            return;
        }
        self.add(&item.ident, &item.ty, &item.expr, &item.attrs, item.span());
    }

    fn visit_impl_item_const(&mut self, item: &'ast ImplItemConst) {
        self.add(&item.ident, &item.ty, &item.expr, &item.attrs, item.span());
    }
}

impl Constants {
    fn add(&mut self, name: &Ident, of: &Type, value: &Expr, attributes: &[Attribute], span: proc_macro2::Span) {
        let Type::Path(path) = of else { return };
        if path.path.segments.last().is_some_and(|last| AMOUNTS.iter().any(|amount| last.ident == amount)) {
            let lines = (span.start().line, span.end().line);
            self.0.push(Constant {
                name: name.to_string(),
                value: value.clone(),
                why: documentation(attributes),
                lines,
            });
        }
    }

    /// Returns the name, value and documentation of each limit. A constant without documentation shares the comment of the constant
    /// on the line above.
    fn limits(&self) -> Vec<(&str, String, &str)> {
        let known: BTreeMap<_, _> = self.0.iter().map(|constant| (&*constant.name, &constant.value)).collect();
        let (mut limits, mut last) = (Vec::new(), None);
        for constant in &self.0 {
            let is_shared = constant.why.is_empty() && last == Some(constant.lines.0 - 1);
            let lower = format!(" {} ", constant.why.to_lowercase().replace([',', '.', ';', ':'], " "));
            if is_shared || WORDS.iter().any(|word| lower.contains(&format!(" {word} "))) {
                let why = if is_shared { "see above" } else { &*constant.why };
                limits.push((&*constant.name, shown(constant, &known), why));
                last = Some(constant.lines.1);
            }
        }
        limits
    }
}

/// Returns the doc comment of an item as one line of a table.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(text) => match &text.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let text = lines.collect::<Vec<_>>().join(" ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

/// Returns a constant's value in a readable unit, or the expression itself if it depends on other files.
fn shown(constant: &Constant, known: &BTreeMap<&str, &Expr>) -> String {
    if let Some(ms) = milliseconds(&constant.value, known) {
        return in_units(ms, &[(86_400_000, " d"), (3_600_000, " h"), (60_000, " min"), (1_000, " s"), (1, " ms")]);
    }
    let written = || format!("`{}`", constant.value.span().source_text().unwrap_or_default().replace('|', "\\|"));
    let Some(number) = number(&constant.value, known) else { return written() };
    let is_bytes = constant.name.contains("BYTES") || constant.why.contains("bytes") || constant.why.contains("Bytes");
    match is_bytes && number >= 1 << 10 && number % (1 << 10) == 0 {
        true => in_units(number, &[(1 << 30, " GiB"), (1 << 20, " MiB"), (1 << 10, " KiB")]),
        false => grouped(number),
    }
}

/// Formats an amount in the largest unit that divides it.
fn in_units(amount: u64, units: &[(u64, &str)]) -> String {
    let unit = units.iter().find(|(unit, _)| amount >= *unit && amount.is_multiple_of(*unit));
    unit.map_or_else(|| grouped(amount), |(unit, name)| format!("{}{name}", grouped(amount / unit)))
}

/// Groups digits, such as `1,000,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// Evaluates `Duration::from_secs(…)` and its siblings.
fn milliseconds(value: &Expr, known: &BTreeMap<&str, &Expr>) -> Option<u64> {
    let Expr::Call(ExprCall { func, args, .. }) = value else { return None };
    let Expr::Path(function) = &**func else { return None };
    let unit = match &*function.path.segments.last()?.ident.to_string() {
        "from_secs" => 1_000,
        "from_millis" => 1,
        _ => return None,
    };
    Some(number(args.first()?, known)? * unit)
}

/// Evaluates arithmetic over literals and constants of the same file.
fn number(value: &Expr, known: &BTreeMap<&str, &Expr>) -> Option<u64> {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Paren(inner) => number(&inner.expr, known),
        // A constant of another module or type may have the same name as this one.
        Expr::Path(path) if path.path.segments.len() > 1 && path.path.segments[0].ident != "Self" => None,
        Expr::Path(path) => number(known.get(&*path.path.segments.last()?.ident.to_string())?, known),
        Expr::Binary(binary) => {
            let (left, right) = (number(&binary.left, known)?, number(&binary.right, known)?);
            match binary.op {
                BinOp::Add(_) => left.checked_add(right),
                BinOp::Sub(_) => left.checked_sub(right),
                BinOp::Mul(_) => left.checked_mul(right),
                BinOp::Div(_) => left.checked_div(right),
                BinOp::Shl(_) => left.checked_shl(u32::try_from(right).ok()?),
                _ => None,
            }
        }
        // `NonZeroUsize::new(128).unwrap()`
        Expr::MethodCall(call) if call.method == "unwrap" => match &*call.receiver {
            Expr::Call(new) => number(new.args.first()?, known),
            _ => None,
        },
        _ => None,
    }
}

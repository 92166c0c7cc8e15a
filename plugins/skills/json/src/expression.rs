//! Compiles an expression and runs it on a document.

use jmespath::{Context, Runtime, ast::Ast};
use patchbay_sdk::{Content, Failure, Reply, Result};

use crate::{
    document::Document,
    fault, functions, meter,
    nesting::{MAX_NESTING, nesting},
    tree,
};

/// The longest expression in bytes. Longer texts are data and belong in the document.
pub(crate) const MAX_BYTES: usize = 4096;

/// A compiled expression. It is safe to run on any document.
#[derive(Debug)]
pub(crate) struct Expression<'a> {
    text: &'a str,
    ast: Ast,
}

impl<'a> Expression<'a> {
    pub(crate) fn compile(text: &'a str) -> Result<Self> {
        if text.trim().is_empty() {
            return Err(Failure::invalid("the expression is empty; @ is the whole document"));
        }
        if text.len() > MAX_BYTES {
            return Err(Failure::invalid(format!(
                "an expression of {} bytes is over the limit of {MAX_BYTES}; put data into the document",
                text.len()
            )));
        }
        let depth = nesting(text);
        if depth > MAX_NESTING {
            return Err(Failure::invalid(format!(
                "an expression nested {depth} levels deep is over the limit of {MAX_NESTING}; query in several steps"
            )));
        }
        let ast = jmespath::parse(text).map_err(|error| fault::parsing(text, &error))?;
        Ok(Self { text, ast: tree::prepare(ast)? })
    }

    /// Runs the expression and returns the result as JSON with sorted names.
    pub(crate) fn search(&self, document: &Document) -> Result<Reply> {
        let mut runtime = Runtime::new();
        functions::register(&mut runtime);
        meter::register(&mut runtime);
        let mut context = Context::new(self.text, &runtime);
        let value = jmespath::interpret(document.value(), &self.ast, &mut context)
            .map_err(|error| fault::running(self.text, &error))?;
        // The library's objects are sorted by name. Direct serialization keeps that order, independent of serde_json's
        // maps.
        Ok(Content::Json(serde_json::to_string(&*value)?).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{refusal, result};

    const PEOPLE: &str = r#"{"people": [
        {"name": "Ada", "age": 36, "tags": ["x"]},
        {"name": "Bo", "age": 19, "tags": []},
        {"name": "Cy", "age": 52, "tags": ["y", "z"]}
    ]}"#;

    #[test]
    fn queries_filter_and_reshape() {
        for (expression, expected) in [
            ("people[0].name", r#""Ada""#),
            ("people[?age > `20`].name", r#"["Ada","Cy"]"#),
            ("people[-1].tags[0]", r#""y""#),
            ("people[].tags[]", r#"["x","y","z"]"#),
            ("length(people)", "3"),
            ("people[?name == 'Bo'] | [0].age", "19"),
            ("sort_by(people, &age)[].name", r#"["Bo","Ada","Cy"]"#),
            ("people[0].{who: name, born: `1990`}", r#"{"born":1990,"who":"Ada"}"#),
            ("max_by(people, &age).name", r#""Cy""#),
            ("people[:2].name | join(' and ', @)", r#""Ada and Bo""#),
            ("keys(people[0])", r#"["age","name","tags"]"#),
            ("people[0].missing", "null"),
            ("people[?!tags].name", r#"["Bo"]"#),
            ("people[?age >= `19` && age < `40`].age", "[36,19]"),
            ("map(&length(tags), people)", "[1,0,2]"),
            ("people[0].* | [0]", "36"),
        ] {
            assert_eq!(result(expression, PEOPLE), expected, "{expression}");
        }
    }

    #[test]
    fn numbers_are_unchanged_and_compared_as_floats() {
        assert_eq!(result("@", "[9007199254740993, 18446744073709551615, 1.5, 1.0, 1e2]"), {
            "[9007199254740993,18446744073709551615,1.5,1.0,100.0]"
        });
        assert_eq!(result("[0] == [1]", "[9007199254740993, 9007199254740992]"), "true");
    }

    #[test]
    fn result_has_sorted_names() {
        assert_eq!(result("{b: @, a: @}", r#"{"d": 1, "c": 2}"#), r#"{"a":{"c":2,"d":1},"b":{"c":2,"d":1}}"#);
    }

    #[test]
    fn empty_or_long_expressions_are_refused() {
        assert!(refusal(" ", "1").starts_with("the expression is empty"));
        let long = format!("'{}'", "x".repeat(MAX_BYTES));
        assert!(refusal(&long, "1").starts_with("an expression of 4098 bytes is over the limit of 4096"));
        assert_eq!(result(&format!("'{}'", "x".repeat(MAX_BYTES - 2)), "1").len(), MAX_BYTES);
    }

    #[test]
    fn deep_expressions_are_refused() {
        for (open, close) in [("(", ")"), ("[", "]"), ("!", ""), ("a.", ""), ("a|", ""), ("@[", "]"), ("{a:", "}")] {
            let deep = |levels: usize| format!("{}a{}", open.repeat(levels), close.repeat(levels));
            assert!(refusal(&deep(MAX_NESTING + 1), "1").contains("levels deep is over the limit of 128"), "{open}");
        }
    }

    #[test]
    fn deepest_accepted_expressions_run() {
        // Without optimization a level takes about 40 KiB of stack; in a component it takes 1 KiB.
        let thread = std::thread::Builder::new().stack_size(16 << 20);
        thread.spawn(run_the_deepest).expect("a thread").join().expect("no panic");
    }

    fn run_the_deepest() {
        let document = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        for (before, between, after) in [
            ("(", "a", ")"),
            ("!", "a", ""),
            ("a.", "a", ""),
            ("@ | ", "@", ""),
            ("a || ", "a", ""),
            ("a == ", "a", ""),
            ("", "@", "[]"),
            ("", "@", "[*]"),
            ("", "@", ".*"),
            ("to_array(", "@", ")"),
            ("[", "@", "]"),
            ("{a:", "@", "}"),
            ("map(&", "@", ",@)"),
        ] {
            let levels = (1..=MAX_NESTING)
                .rev()
                .find(|levels| nesting(&wrap(before, between, after, *levels)) <= MAX_NESTING)
                .expect("one level fits");
            let deepest = wrap(before, between, after, levels);
            // Any result is fine; the stack must not overflow.
            let expression = Expression::compile(&deepest).expect("within the limits");
            _ = expression.search(&Document::parse(&document).expect("a document"));
        }
    }

    fn wrap(before: &str, between: &str, after: &str, levels: usize) -> String {
        format!("{}{between}{}", before.repeat(levels), after.repeat(levels))
    }
}

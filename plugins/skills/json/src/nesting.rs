//! How deep the tree of an expression can become, told from its text.
//!
//! The library parses, runs and drops a tree by recursion and bounds none of it; a chain such as `a.b.c` nests as much
//! as brackets do. So the text is measured first, without recursion.

/// Operators above and below each other: several times what people write, and a quarter of what the 512 KiB stack of a
/// guest bears.
pub(crate) const MAX_NESTING: usize = 128;

/// An upper bound of the number of operators on any path through the expression's tree.
pub(crate) fn nesting(expression: &str) -> usize {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    let mut chars = expression.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\'' | '"' | '`' => {
                // Quoted text, in which a backslash protects what follows, ends at the same quote.
                while let Some(quoted) = chars.next() {
                    match quoted {
                        '\\' => _ = chars.next(),
                        _ if quoted == char => break,
                        _ => {}
                    }
                }
            }
            '(' | '[' | '{' => {
                level.operators += 1;
                outer.push(std::mem::take(&mut level));
            }
            ')' | ']' | '}' => {
                // A bracket too many is the parser's to refuse.
                if let Some(mut above) = outer.pop() {
                    above.inner = above.inner.max(level.depth());
                    level = above;
                }
            }
            ',' => level = Level { finished: level.depth(), ..Level::default() },
            '.' | '*' | '!' | '?' | '&' | '|' | '=' | '<' | '>' => {
                level.operators += 1;
                // `&&`, `||`, `==`, `<=` and their like are one operator.
                if matches!(
                    (char, chars.peek()),
                    ('&', Some('&')) | ('|', Some('|')) | ('=' | '<' | '>' | '!', Some('='))
                ) {
                    chars.next();
                }
            }
            _ => {}
        }
    }
    while let Some(mut above) = outer.pop() {
        above.inner = above.inner.max(level.depth());
        level = above;
    }
    level.depth()
}

/// What stands between two brackets, up to the next comma.
#[derive(Default)]
struct Level {
    operators: usize,
    /// The deepest bracket in it.
    inner: usize,
    /// The deepest of the parts before the last comma.
    finished: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.finished.max(self.operators + self.inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_and_brackets_add_up() {
        for (expression, depth) in [
            ("", 0),
            ("a", 0),
            ("a.b.c", 2),
            ("a || b == c", 2),
            ("a[0].b", 2),
            ("a[?b > `1`].c", 4),
            ("f(g(a))", 2),
            ("!!!a", 3),
            ("!=", 1),
        ] {
            assert_eq!(nesting(expression), depth, "{expression}");
        }
    }

    #[test]
    fn parts_beside_each_other_do_not_add_up() {
        assert_eq!(nesting("[a.b, c.d, e]"), 2);
        assert_eq!(nesting("[e, a.b.c, d].f"), 4);
        assert_eq!(nesting("{x: a, y: f(b, c.d)}"), 3);
    }

    #[test]
    fn quoted_text_does_not_count() {
        assert_eq!(nesting(r#"'a.b\'.c' "d.\".e" `"\`."`"#), 0);
        assert_eq!(nesting("'never.closed"), 0);
    }

    #[test]
    fn brackets_that_do_not_match_are_no_trouble() {
        assert_eq!(nesting("]])}"), 0);
        assert_eq!(nesting("[[["), 3);
        assert_eq!(nesting("(]"), 1);
    }
}

//! Limits the depth of an expression's tree before the expression is parsed.
//!
//! The library parses, runs and drops a tree by unlimited recursion, and a chain such as `a.b.c` nests as deeply
//! as brackets do. So the depth is computed from the text first, without recursion.

/// The most operators on one path of the tree: several times more than in real expressions, and a quarter of the number that
/// the 512 KiB stack of a component can hold.
pub(crate) const MAX_NESTING: usize = 128;

/// Returns an upper bound on the number of operators on any path through the expression's tree.
pub(crate) fn nesting(expression: &str) -> usize {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    let mut chars = expression.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\'' | '"' | '`' => {
                // Quoted text ends at the same quote; a backslash escapes the next character.
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
                // The parser will refuse an extra bracket.
                if let Some(mut above) = outer.pop() {
                    above.inner = above.inner.max(level.depth());
                    level = above;
                }
            }
            ',' => level = Level { finished: level.depth(), ..Level::default() },
            '.' | '*' | '!' | '?' | '&' | '|' | '=' | '<' | '>' => {
                level.operators += 1;
                // `&&`, `||`, `==`, `<=` and similar are one operator.
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

/// The part between two brackets, up to the next comma.
#[derive(Default)]
struct Level {
    operators: usize,
    /// Depth of the deepest bracket within this level.
    inner: usize,
    /// Depth of the deepest part before the last comma.
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
    fn parallel_parts_do_not_add_up() {
        assert_eq!(nesting("[a.b, c.d, e]"), 2);
        assert_eq!(nesting("[e, a.b.c, d].f"), 4);
        assert_eq!(nesting("{x: a, y: f(b, c.d)}"), 3);
    }

    #[test]
    fn quoted_text_is_not_counted() {
        assert_eq!(nesting(r#"'a.b\'.c' "d.\".e" `"\`."`"#), 0);
        assert_eq!(nesting("'never.closed"), 0);
    }

    #[test]
    fn unbalanced_brackets_are_handled() {
        assert_eq!(nesting("]])}"), 0);
        assert_eq!(nesting("[[["), 3);
        assert_eq!(nesting("(]"), 1);
    }
}

//! Parses a wildcard pattern into tokens.

use std::iter::Peekable;

use super::token::Token;

/// Why a text is not a valid pattern.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PatternFault {
    UnclosedClass,
    ReversedRange,
    DanglingEscape,
}

impl PatternFault {
    pub(crate) fn why(&self) -> &'static str {
        match self {
            Self::UnclosedClass => "unclosed '['",
            Self::ReversedRange => "a range in '[]' ends before it begins",
            Self::DanglingEscape => "it ends with a backslash",
        }
    }
}

/// Parses a pattern into tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, PatternFault> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    let mut at_start_of_part = true;
    while let Some(c) = chars.next() {
        let starts_part = std::mem::replace(&mut at_start_of_part, c == '/');
        match c {
            '\\' => tokens.push(Token::Char(chars.next().ok_or(PatternFault::DanglingEscape)?)),
            '?' => tokens.push(Token::Any),
            '[' => tokens.push(class(&mut chars)?),
            '*' => {
                let mut stars = 1;
                while chars.next_if_eq(&'*').is_some() {
                    stars += 1;
                }
                match chars.peek() {
                    None if stars > 1 && starts_part => tokens.push(Token::Deep),
                    Some('/') if stars > 1 && starts_part => {
                        chars.next();
                        tokens.extend([Token::Optional, Token::Deep, Token::Char('/')]);
                        at_start_of_part = true;
                    }
                    _ => tokens.push(Token::Star),
                }
            }
            c => tokens.push(Token::Char(c)),
        }
    }
    Ok(tokens)
}

/// Returns how many characters of `rest`, the text after a `[`, belong to the class. `None` if it is not a class.
pub(crate) fn class_length(rest: &str) -> Option<usize> {
    let mut length = 0;
    class(&mut rest.chars().inspect(|_| length += 1).peekable()).ok()?;
    Some(length)
}

/// Parses a class from after its `[` to its `]`. A `]` in first place is a member, as is a `-` at either end.
fn class(chars: &mut Peekable<impl Iterator<Item = char>>) -> Result<Token, PatternFault> {
    let negated = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut first = true;
    loop {
        let c = match chars.next().ok_or(PatternFault::UnclosedClass)? {
            ']' if !first => return Ok(Token::Class { negated, ranges }),
            '[' if chars.peek() == Some(&':') => {
                named(chars, &mut ranges)?;
                first = false;
                continue;
            }
            '\\' => chars.next().ok_or(PatternFault::UnclosedClass)?,
            c => c,
        };
        first = false;
        if chars.next_if_eq(&'-').is_none() {
            ranges.push((c, c));
            continue;
        }
        match chars.peek().copied().ok_or(PatternFault::UnclosedClass)? {
            ']' => ranges.extend([(c, c), ('-', '-')]),
            end => {
                chars.next();
                let end = if end == '\\' { chars.next().ok_or(PatternFault::UnclosedClass)? } else { end };
                if end < c {
                    return Err(PatternFault::ReversedRange);
                }
                ranges.push((c, end));
            }
        }
    }
}

/// Parses a named class such as `:alpha:]` after its `[`. An unknown name has no members.
fn named(chars: &mut impl Iterator<Item = char>, ranges: &mut Vec<(char, char)>) -> Result<(), PatternFault> {
    let mut name = String::new();
    loop {
        match chars.next().ok_or(PatternFault::UnclosedClass)? {
            ']' => break,
            c => name.push(c),
        }
    }
    let members: &[(char, char)] = match name.as_str() {
        ":alnum:" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        ":alpha:" => &[('A', 'Z'), ('a', 'z')],
        ":blank:" => &[(' ', ' '), ('\t', '\t')],
        ":digit:" => &[('0', '9')],
        ":lower:" => &[('a', 'z')],
        ":punct:" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        ":space:" => &[(' ', ' '), ('\t', '\r')],
        ":upper:" => &[('A', 'Z')],
        ":xdigit:" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => &[],
    };
    ranges.extend(members);
    Ok(())
}

//! Splits an expression into tokens, each with its column.

use std::{iter::Peekable, str::Chars};

use crate::{
    error::{Error, Result},
    literal::Literal,
};

/// A token of the expression language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Number(Literal),
    /// A unit, a function, `in` or `to`.
    Name(String),
    Sign(char),
    End,
}

/// A token and the column where it begins, in characters from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spanned {
    pub(crate) token: Token,
    pub(crate) column: usize,
}

/// Returns all tokens of `text`; the last one is [`Token::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Spanned>> {
    let mut lexer = Lexer { rest: text.chars().peekable(), column: 1 };
    let mut tokens = Vec::new();
    loop {
        lexer.take_while(char::is_whitespace);
        let column = lexer.column;
        let token = lexer.token().map_err(|error| error.at(column))?;
        let end = token == Token::End;
        tokens.push(Spanned { token, column });
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    column: usize,
}

impl Lexer<'_> {
    fn token(&mut self) -> Result<Token> {
        let Some(&next) = self.rest.peek() else { return Ok(Token::End) };
        match next {
            '0'..='9' | '.' => self.number().map(Token::Number),
            _ if next.is_alphabetic() => {
                Ok(Token::Name(self.take_while(|c| c.is_alphabetic() || c == '_' || c.is_ascii_digit())))
            }
            _ => {
                self.next();
                sign(next).map(Token::Sign)
            }
        }
    }

    fn number(&mut self) -> Result<Literal> {
        // `0B` is zero bytes, so prefixes are lower-case. `0bit` is not a prefix either.
        if self.peek() == Some('0') {
            let mut ahead = self.rest.clone();
            let (prefix, digit) = (ahead.nth(1), ahead.next());
            let radix = match prefix {
                Some('x') => 16,
                Some('o') => 8,
                Some('b') if digit != Some('i') => 2,
                _ => 10,
            };
            if radix != 10 {
                self.next();
                self.next();
                // Accepts letters too; otherwise a wrong digit would be parsed as a unit.
                let digits = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
                return Literal::radix(&digits, radix);
            }
        }
        let whole = self.digits();
        let mut fraction = None;
        if self.peek() == Some('.') {
            self.next();
            fraction = Some(self.digits());
        }
        let exponent = self.exponent();
        Literal::decimal(&whole, fraction.as_deref(), exponent.as_deref())
    }

    fn digits(&mut self) -> String {
        self.take_while(|c| c.is_ascii_digit() || c == '_')
    }

    /// Reads the exponent after an `e` if it is a whole number; otherwise the `e` begins a name, as in `5 EB`.
    fn exponent(&mut self) -> Option<String> {
        let mut ahead = self.rest.clone();
        ahead.next().filter(|e| matches!(e, 'e' | 'E'))?;
        let sign = ahead.next_if(|c| matches!(c, '+' | '-'));
        ahead.peek().filter(|c| c.is_ascii_digit())?;
        self.next();
        if sign.is_some() {
            self.next();
        }
        let digits = self.digits();
        Some(if sign == Some('-') { format!("-{digits}") } else { digits })
    }

    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    fn next(&mut self) {
        if self.rest.next().is_some() {
            self.column += 1;
        }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(next) = self.rest.next_if(|c| wanted(*c)) {
            taken.push(next);
            self.column += 1;
        }
        taken
    }
}

/// Returns the operator of a character, including typographic characters from pasted text.
fn sign(c: char) -> Result<char> {
    match c {
        '+' | '-' | '*' | '/' | '%' | '^' | '!' | '(' | ')' | ',' => Ok(c),
        '\u{d7}' | '\u{b7}' => Ok('*'),
        '\u{f7}' => Ok('/'),
        '\u{2212}' => Ok('-'),
        _ => Err(Error::syntax(format!("'{}' has no meaning in an expression; remove it", c.escape_debug()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lex(text: &str) -> String {
        let show = |spanned: &Spanned| match &spanned.token {
            Token::Number(literal) => format!("{}:{}", spanned.column, literal.text()),
            Token::Name(name) => format!("{}:{name}", spanned.column),
            Token::Sign(sign) => format!("{}:{sign}", spanned.column),
            Token::End => format!("{}.", spanned.column),
        };
        match tokens(text) {
            Ok(tokens) => tokens.iter().map(show).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(lex(""), "1.");
        assert_eq!(lex("1+ 22"), "1:1 2:+ 4:22 6.");
        assert_eq!(lex("3\u{b5}s \u{d7}\u{a0}2"), "1:3 2:\u{b5}s 5:* 7:2 8.");
        assert_eq!(lex("\u{2212}8 \u{f7} 2"), "1:- 2:8 4:/ 6:2 7.");
    }

    #[test]
    fn numbers_end_at_the_right_place() {
        assert_eq!(lex("1e9"), "1:1e9 4.");
        assert_eq!(lex("1.5E-3s"), "1:1.5e-3 7:s 8.");
        assert_eq!(lex("5EB"), "1:5 2:EB 4.");
        assert_eq!(lex("5e"), "1:5 2:e 3.");
        assert_eq!(lex("5e+x"), "1:5 2:e 3:+ 4:x 5.");
        assert_eq!(lex("0bit"), "1:0 2:bit 5.");
        assert_eq!(lex("0B"), "1:0 2:B 3.");
        assert_eq!(lex("0b1_0 0o17 0xF_f"), "1:0b1_0 7:0o17 12:0xF_f 17.");
        assert_eq!(lex(".5"), "1:.5 3.");
        assert_eq!(lex("1 000"), "1:1 3:000 6.");
    }

    #[test]
    fn malformed_numbers_are_refused() {
        for (text, expected) in [
            ("2+0b12", "column 3: '2' is not a digit of the binary number 0b12"),
            ("0xfg", "column 1: 'g' is not a digit of the hexadecimal number 0xfg"),
            ("0o8", "column 1: '8' is not a digit of the octal number 0o8"),
            ("0x", "column 1: digits must follow 0x"),
            ("1__0", "column 1: in 1__0 a '_' is not between two digits"),
            ("5_", "column 1: in 5_ a '_' is not between two digits"),
            ("0x_1", "column 1: in 0x_1 a '_' is not between two digits"),
            ("1 + 5.", "column 5: a digit must follow the point of 5."),
            (".", "column 1: a digit must follow the point of ."),
        ] {
            assert_eq!(lex(text), expected, "{text}");
        }
    }

    #[test]
    fn unknown_characters_are_refused() {
        assert_eq!(lex("2 $ 3"), "column 3: '$' has no meaning in an expression; remove it");
        assert_eq!(lex("1\u{0}"), "column 2: '\\0' has no meaning in an expression; remove it");
        assert_eq!(lex("1 = 1"), "column 3: '=' has no meaning in an expression; remove it");
    }
}

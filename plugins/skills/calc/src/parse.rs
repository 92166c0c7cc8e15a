//! Parses tokens into a program. The grammar:
//!
//! ```text
//! expression = sum [ ("in" | "to") ( "hex" | "oct" | "bin" | units ) ]
//! sum        = product { ("+" | "-") product }
//! product    = signed { ("*" | "/" | "%") signed }
//! signed     = { "+" | "-" } quantity
//! quantity   = power [ unit { "/" unit } ]
//! power      = postfix [ "^" { "+" | "-" } power ]
//! postfix    = primary { "!" }
//! primary    = NUMBER | UNIT | "(" sum ")" | FUNCTION "(" sum { "," sum } ")"
//! units      = unit { ("*" | "/") unit }
//! unit       = UNIT [ "^" { "+" | "-" } NUMBER ]
//! ```
//!
//! A unit after a number binds more tightly than `*` and `/`, and so does a `/` between two units: `1 GiB / 100 Mbit/s`
//! is a size divided by a rate.

use crate::{
    error::{Error, Result},
    format::shorten,
    function::{self, Function},
    lex::{Spanned, Token, tokens},
    limits::{MAX_DEPTH, MAX_EXPRESSION_BYTES},
    program::{Operation, Program, Step, Target},
    unit::{self, Measure, Seen},
};

const PERCENTAGE: &str = "% is the remainder of a division; for a percentage write / 100";

/// Parses a whole expression.
pub(crate) fn parse(text: &str) -> Result<Program> {
    if text.len() > MAX_EXPRESSION_BYTES {
        return Err(Error::too_large(format!(
            "the expression has {} bytes, and the limit is {MAX_EXPRESSION_BYTES}; split it",
            text.len()
        )));
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, next: 0, depth: 0, steps: Vec::new(), seen: Seen::default() };
    if *parser.peek() == Token::End {
        return Err(Error::syntax("the expression is empty; write something such as 2^100 or 3 GiB / 100 Mbit/s"));
    }
    parser.sum()?;
    let target = parser.conversion()?;
    if *parser.peek() != Token::End {
        return Err(parser.leftover());
    }
    Ok(Program { steps: parser.steps, seen: parser.seen, target })
}

struct Parser<'a> {
    /// The last token is [`Token::End`], and the parser never advances past it.
    tokens: &'a [Spanned],
    next: usize,
    depth: usize,
    steps: Vec<Step>,
    seen: Seen,
}

impl<'a> Parser<'a> {
    fn conversion(&mut self) -> Result<Option<(Target, usize)>> {
        if !self.at_conversion() {
            return Ok(None);
        }
        self.advance();
        let column = self.column();
        let target = match self.peek() {
            Token::Name(name) if name == "hex" => Target::Hexadecimal,
            Token::Name(name) if name == "oct" => Target::Octal,
            Token::Name(name) if name == "bin" => Target::Binary,
            Token::Name(_) => return Ok(Some((Target::Units(self.target_units()?), column))),
            _ => return Err(self.expected("a unit, hex, oct or bin")),
        };
        self.advance();
        Ok(Some((target, column)))
    }

    fn target_units(&mut self) -> Result<Measure> {
        let mut measure = self.unit()?;
        loop {
            match self.peek() {
                Token::Sign('*') => {
                    self.advance();
                    measure = measure.times(self.unit()?);
                }
                Token::Sign('/') => {
                    self.advance();
                    measure = measure.over(self.unit()?);
                }
                _ => return Ok(measure),
            }
        }
    }

    fn sum(&mut self) -> Result<()> {
        self.product()?;
        loop {
            let operation = match self.peek() {
                Token::Sign('+') => Operation::Add,
                Token::Sign('-') => Operation::Subtract,
                _ => return Ok(()),
            };
            let column = self.advance();
            self.product()?;
            self.emit(operation, column);
        }
    }

    fn product(&mut self) -> Result<()> {
        self.signed()?;
        loop {
            let operation = match self.peek() {
                Token::Sign('*') => Operation::Multiply,
                Token::Sign('/') => Operation::Divide,
                Token::Sign('%') => Operation::Remainder,
                _ => return Ok(()),
            };
            let column = self.advance();
            self.refuse_habits(&operation).map_err(|error| error.at(column))?;
            self.signed()?;
            self.emit(operation, column);
        }
    }

    /// Refuses notation of other languages that would have another meaning here. In `20% + 5` the plus would be a sign
    /// and the result a remainder, which the author does not mean.
    fn refuse_habits(&self, operation: &Operation) -> Result<()> {
        let message = match (operation, self.peek()) {
            (Operation::Multiply, Token::Sign('*')) => "write a power with ^, not with **",
            (Operation::Divide, Token::Sign('/')) => "write a quotient without its remainder as div(a, b)",
            (Operation::Remainder, Token::End | Token::Sign('+' | '*' | '/' | ')' | ',')) => PERCENTAGE,
            (Operation::Remainder, Token::Name(name)) if name == "of" => PERCENTAGE,
            _ => return Ok(()),
        };
        Err(Error::syntax(message))
    }

    fn signed(&mut self) -> Result<()> {
        let (negative, column) = self.signs();
        self.quantity()?;
        if negative {
            self.emit(Operation::Negate, column);
        }
        Ok(())
    }

    /// Skips any number of signs. Returns true if together they negate, and the column where they begin.
    fn signs(&mut self) -> (bool, usize) {
        let column = self.column();
        let mut negative = false;
        while let Token::Sign(sign @ ('+' | '-')) = self.peek() {
            negative ^= *sign == '-';
            self.advance();
        }
        (negative, column)
    }

    fn quantity(&mut self) -> Result<()> {
        let starts_with_unit = self.at_unit(0);
        self.power()?;
        if !self.at_unit(0) || self.at_conversion() {
            return Ok(());
        }
        let column = self.column();
        if starts_with_unit {
            return Err(Error::syntax("two units are next to each other; write * or / between them").at(column));
        }
        let mut measure = self.unit()?;
        while *self.peek() == Token::Sign('/') && self.at_unit(1) {
            self.advance();
            measure = measure.over(self.unit()?);
        }
        self.emit(Operation::Unit(measure), column);
        self.emit(Operation::Multiply, column);
        Ok(())
    }

    fn power(&mut self) -> Result<()> {
        self.postfix()?;
        if *self.peek() != Token::Sign('^') {
            return Ok(());
        }
        let column = self.advance();
        let (negative, sign) = self.signs();
        // Right-associative: 2^3^2 is 2^(3^2), one level deeper for each ^.
        self.deeper(sign, Self::power)?;
        if negative {
            self.emit(Operation::Negate, sign);
        }
        self.emit(Operation::Power, column);
        Ok(())
    }

    fn postfix(&mut self) -> Result<()> {
        self.primary()?;
        while *self.peek() == Token::Sign('!') {
            let column = self.advance();
            self.emit(Operation::Factorial, column);
        }
        Ok(())
    }

    fn primary(&mut self) -> Result<()> {
        let column = self.column();
        match self.peek() {
            Token::Number(literal) => {
                let literal = literal.clone();
                self.advance();
                self.emit(Operation::Push(literal), column);
                Ok(())
            }
            Token::Sign('(') => {
                self.advance();
                self.deeper(column, Self::sum)?;
                self.close(column)
            }
            Token::Name(_) if self.at_conversion() => Err(self.expected("a value")),
            Token::Name(name) if self.at_call(0) => {
                let function = function::named(name).map_err(|error| error.at(column))?;
                self.advance();
                self.call(function, column)
            }
            Token::Name(_) => {
                let measure = self.unit_name()?;
                self.emit(Operation::Unit(measure), column);
                Ok(())
            }
            _ => Err(self.expected("a value")),
        }
    }

    fn call(&mut self, function: Function, column: usize) -> Result<()> {
        let open = self.advance();
        let mut count = 0;
        if *self.peek() != Token::Sign(')') {
            loop {
                self.deeper(column, Self::sum)?;
                count += 1;
                if *self.peek() != Token::Sign(',') {
                    break;
                }
                self.advance();
            }
        }
        self.close(open)?;
        function.check_count(count).map_err(|error| error.at(column))?;
        self.emit(Operation::Call(function, count), column);
        Ok(())
    }

    fn close(&mut self, open: usize) -> Result<()> {
        match self.peek() {
            Token::Sign(')') => {
                self.advance();
                Ok(())
            }
            Token::End => {
                Err(Error::syntax(format!("the parenthesis in column {open} is not closed; add a )")).at(self.column()))
            }
            _ => Err(self.leftover()),
        }
    }

    /// Parses a unit with its power.
    fn unit(&mut self) -> Result<Measure> {
        let measure = self.unit_name()?;
        if *self.peek() != Token::Sign('^') {
            return Ok(measure);
        }
        self.advance();
        let (negative, column) = self.signs();
        let power = match self.peek() {
            Token::Number(literal) => literal.number().map_err(|error| error.at(column))?,
            _ => return Err(self.expected("a whole number as the power of a unit")),
        };
        self.advance();
        let power: i32 = power
            .whole()
            .and_then(|whole| whole.try_into().ok())
            .ok_or_else(|| Error::syntax("the power of a unit must be a small whole number").at(column))?;
        measure.pow(if negative { -power } else { power }).map_err(|error| error.at(column))
    }

    fn unit_name(&mut self) -> Result<Measure> {
        let column = self.column();
        let Token::Name(name) = self.peek() else { return Err(self.expected("a unit")) };
        let measure = Measure::named(name).ok_or_else(|| unknown(name).at(column))?;
        self.advance();
        self.seen.note(&measure);
        Ok(measure)
    }

    fn deeper(&mut self, column: usize, inner: fn(&mut Self) -> Result<()>) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return Err(Error::too_large(format!(
                "parentheses and powers are nested deeper than the limit of {MAX_DEPTH}; split the expression"
            ))
            .at(column));
        }
        self.depth += 1;
        inner(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn peek(&self) -> &'a Token {
        self.ahead(0)
    }

    fn ahead(&self, by: usize) -> &'a Token {
        self.tokens.get(self.next + by).map_or(&Token::End, |spanned| &spanned.token)
    }

    fn column(&self) -> usize {
        self.tokens.get(self.next).map_or(1, |spanned| spanned.column)
    }

    /// Advances over a token and returns its column.
    fn advance(&mut self) -> usize {
        let column = self.column();
        if *self.peek() != Token::End {
            self.next += 1;
        }
        column
    }

    fn at_conversion(&self) -> bool {
        matches!(self.peek(), Token::Name(name) if name == "in" || name == "to")
    }

    fn at_call(&self, by: usize) -> bool {
        matches!(self.ahead(by), Token::Name(_)) && *self.ahead(by + 1) == Token::Sign('(')
    }

    fn at_unit(&self, by: usize) -> bool {
        matches!(self.ahead(by), Token::Name(_)) && !self.at_call(by)
    }

    fn emit(&mut self, operation: Operation, column: usize) {
        self.steps.push(Step { operation, column });
    }

    fn expected(&self, what: &str) -> Error {
        Error::syntax(format!("expected {what}, found {}", self.found())).at(self.column())
    }

    /// Returns the error for a token that follows a complete expression.
    fn leftover(&self) -> Error {
        let message = match self.peek() {
            Token::Sign(')') => "this ) closes nothing; remove it".to_owned(),
            Token::Sign(',') => "a comma stands only between the arguments of a function; \
                                 digits are grouped with _, and fractions have a point"
                .to_owned(),
            Token::Name(name) if self.at_conversion() => {
                format!("'{name}' may appear only once, at the end of the whole expression")
            }
            _ => format!("expected an operator such as + or * before {}", self.found()),
        };
        Error::syntax(message).at(self.column())
    }

    fn found(&self) -> String {
        match self.peek() {
            Token::Number(literal) => shorten(literal.text()),
            Token::Name(name) => format!("'{}'", shorten(name)),
            Token::Sign(sign) => format!("'{sign}'"),
            Token::End => "the end".to_owned(),
        }
    }
}

fn unknown(name: &str) -> Error {
    let shown = shorten(name);
    if function::is_name(name) {
        return Error::syntax(format!("'{shown}' is a function; write its arguments in parentheses"));
    }
    if matches!(name, "pi" | "\u{3c0}" | "e" | "tau" | "phi") {
        return Error::syntax(format!(
            "'{shown}' is irrational and everything here is exact; write as many of its digits as you need"
        ));
    }
    let mut message = format!("'{shown}' is not a unit");
    match unit::alike(name).as_slice() {
        [] => message += &format!("; units are {}", unit::LIST),
        [only] => message += &format!("; did you mean {only}?"),
        [first @ .., last] => message += &format!("; did you mean {} or {last}?", first.join(", ")),
    }
    Error::syntax(message)
}

#[cfg(test)]
mod tests;

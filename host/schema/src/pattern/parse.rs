//! Parses the regular expressions of ECMA-262 with the flag `u`. It also accepts syntax of other dialects and of older
//! patterns if the meaning is clear: `\-` outside of classes, a `{` that does not begin a count, `(?P<name>…)`, `\A`,
//! `\z`, `(?i)`.

use std::collections::HashMap;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use super::{MemoryBudget, PatternError};

/// The deepest nesting of groups.
const NESTING: u32 = 50;
/// The deepest nesting of look-around. Each level multiplies the time by the length of the text.
const LOOKS: u32 = 2;
/// The most temporary memory that case folding of one class may need, in bytes.
const FOLDING: usize = 4096;

#[derive(Debug)]
pub(super) enum Tree {
    Empty,
    Char(char),
    Class(u32),
    Start,
    End,
    LineStart,
    LineEnd,
    /// A word boundary; with `true`, any position that is not one.
    Boundary(bool),
    Concat(Vec<Tree>),
    Either(Vec<Tree>),
    Repeat {
        tree: Box<Tree>,
        min: u32,
        max: Option<u32>,
    },
    Look {
        tree: Box<Tree>,
        behind: bool,
        negate: bool,
    },
}

/// A tree and the classes that it refers to.
pub(super) struct Parsed {
    pub tree: Tree,
    pub classes: Vec<ClassUnicode>,
}

pub(super) fn parse(pattern: &str, memory: &mut MemoryBudget) -> Result<Parsed, PatternError> {
    let mut parser = Parser {
        rest: pattern,
        memory,
        classes: Vec::new(),
        properties: HashMap::new(),
        flags: Flags::default(),
        nesting: 0,
        looks: 0,
    };
    let tree = parser.alternatives()?;
    if parser.peek().is_some() {
        return Err(PatternError::invalid("unmatched ')'"));
    }
    Ok(Parsed { tree, classes: parser.classes })
}

#[derive(Clone, Copy, Default)]
struct Flags {
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
}

struct Parser<'p, 'm> {
    rest: &'p str,
    memory: &'m mut MemoryBudget,
    classes: Vec<ClassUnicode>,
    /// Classes such as `\p{…}` that were already looked up, by their text.
    properties: HashMap<String, ClassUnicode>,
    flags: Flags,
    nesting: u32,
    looks: u32,
}

/// The meaning of one escape or one character of a class.
enum Item {
    Char(char),
    Class(ClassUnicode),
    /// Half of a surrogate pair, which never occurs in a text.
    Surrogate(u32),
}

impl Parser<'_, '_> {
    fn alternatives(&mut self) -> Result<Tree, PatternError> {
        let flags = self.flags;
        let mut options = vec![self.sequence()?];
        while self.eat('|') {
            options.push(self.sequence()?);
        }
        self.flags = flags;
        self.take_tree(options.len())?;
        Ok(match options.len() {
            1 => options.pop().unwrap_or(Tree::Empty),
            _ => Tree::Either(options),
        })
    }

    fn sequence(&mut self) -> Result<Tree, PatternError> {
        let mut parts = Vec::new();
        while let Some(next) = self.peek() {
            if matches!(next, '|' | ')') {
                break;
            }
            let part = self.term()?;
            let part = self.counted(part)?;
            self.take_tree(1)?;
            parts.push(part);
        }
        Ok(match parts.len() {
            0 => Tree::Empty,
            1 => parts.pop().unwrap_or(Tree::Empty),
            _ => Tree::Concat(parts),
        })
    }

    fn term(&mut self) -> Result<Tree, PatternError> {
        let Some(next) = self.next() else { return Ok(Tree::Empty) };
        match next {
            '^' => Ok(if self.flags.multi_line { Tree::LineStart } else { Tree::Start }),
            '$' => Ok(if self.flags.multi_line { Tree::LineEnd } else { Tree::End }),
            '.' => {
                let mut class = any();
                if !self.flags.dot_all {
                    class.difference(&ranges(&[('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')]));
                }
                self.class(class)
            }
            '(' => self.group(),
            '[' => self.bracket(),
            '\\' => self.escape(),
            '*' | '+' | '?' => Err(PatternError::invalid(format!("there is nothing for '{next}' to repeat"))),
            '{' if count(self.rest)?.is_some() => Err(PatternError::invalid("there is nothing for '{' to repeat")),
            literal => self.literal(literal),
        }
    }

    fn literal(&mut self, literal: char) -> Result<Tree, PatternError> {
        if !self.flags.ignore_case || !literal.is_alphabetic() {
            return Ok(Tree::Char(literal));
        }
        self.class(ranges(&[(literal, literal)]))
    }

    /// Adds a class, with case folding if case is ignored.
    fn class(&mut self, mut class: ClassUnicode) -> Result<Tree, PatternError> {
        self.fold(&mut class)?;
        self.push_class(class)
    }

    fn fold(&mut self, class: &mut ClassUnicode) -> Result<(), PatternError> {
        if !self.flags.ignore_case {
            return Ok(());
        }
        self.memory.take(FOLDING)?;
        class.try_case_fold_simple().map_err(|_| PatternError::invalid("case cannot be ignored here"))
    }

    fn push_class(&mut self, class: ClassUnicode) -> Result<Tree, PatternError> {
        self.take_class(&class)?;
        let index = self.classes.len() as u32;
        self.classes.push(class);
        Ok(Tree::Class(index))
    }

    fn group(&mut self) -> Result<Tree, PatternError> {
        self.nesting += 1;
        if self.nesting > NESTING {
            return Err(PatternError::invalid(format!("groups are nested more than {NESTING} deep")));
        }
        let outer = self.flags;
        let mut look = None;
        if self.eat('?') {
            match self.next() {
                Some(':') => {}
                Some('=') => look = Some((false, false)),
                Some('!') => look = Some((false, true)),
                Some('P') if self.eat('<') => self.group_name()?,
                Some('<') if self.eat('=') => look = Some((true, false)),
                Some('<') if self.eat('!') => look = Some((true, true)),
                Some('<') => self.group_name()?,
                Some('>') => return Err(PatternError::invalid("atomic groups '(?>' are not supported")),
                Some(flag) => {
                    if !self.flags_of_group(flag)? {
                        // `(?i)` applies to the rest of the enclosing group.
                        self.nesting -= 1;
                        return Ok(Tree::Empty);
                    }
                }
                None => return Err(PatternError::invalid("unclosed '('")),
            }
        }
        self.looks += u32::from(look.is_some());
        if self.looks > LOOKS {
            return Err(PatternError::invalid(format!("look-arounds are nested more than {LOOKS} deep")));
        }
        let tree = self.alternatives()?;
        if !self.eat(')') {
            return Err(PatternError::invalid("unclosed '('"));
        }
        self.looks -= u32::from(look.is_some());
        self.flags = outer;
        self.nesting -= 1;
        Ok(match look {
            Some((behind, negate)) => Tree::Look { tree: Box::new(tree), behind, negate },
            None => tree,
        })
    }

    fn group_name(&mut self) -> Result<(), PatternError> {
        let mut length = 0;
        loop {
            match self.next() {
                Some('>') if length > 0 => return Ok(()),
                Some(c) if c.is_alphanumeric() || matches!(c, '_' | '$') => length += 1,
                _ => return Err(PatternError::invalid("a group's name is incomplete")),
            }
        }
    }

    /// Parses flags such as `im-s` up to `:` or `)`. Returns true if the group continues.
    fn flags_of_group(&mut self, first: char) -> Result<bool, PatternError> {
        let (mut on, mut next) = (true, Some(first));
        loop {
            match next {
                Some('i') => self.flags.ignore_case = on,
                Some('m') => self.flags.multi_line = on,
                Some('s') => self.flags.dot_all = on,
                // Always on.
                Some('u') if on => {}
                Some('-') if on => on = false,
                Some(':') => return Ok(true),
                Some(')') => return Ok(false),
                Some(flag) => return Err(PatternError::invalid(format!("'(?{flag}' is not supported"))),
                None => return Err(PatternError::invalid("unclosed '('")),
            }
            next = self.next();
        }
    }

    /// Parses an optional quantifier: `*`, `+`, `?`, `{n,m}`. Lazy quantifiers are accepted,
    /// because they match the same texts.
    fn counted(&mut self, tree: Tree) -> Result<Tree, PatternError> {
        let (min, max) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let Some((min, max, length)) = count(self.rest.get(1..).unwrap_or_default())? else { return Ok(tree) };
                self.rest = self.rest.get(1 + length..).unwrap_or_default();
                return self.repeat(tree, (min, max));
            }
            _ => return Ok(tree),
        };
        self.next();
        self.repeat(tree, (min, max))
    }

    fn repeat(&mut self, tree: Tree, (min, max): (u32, Option<u32>)) -> Result<Tree, PatternError> {
        if max.is_some_and(|max| max < min) {
            return Err(PatternError::invalid(format!("in '{{{min},…}}' the maximum is below the minimum")));
        }
        self.eat('?');
        if let Some(next @ ('*' | '+' | '?')) = self.peek() {
            return Err(PatternError::invalid(format!("there is nothing for '{next}' to repeat")));
        }
        self.take_tree(1)?;
        Ok(Tree::Repeat { tree: Box::new(tree), min, max })
    }

    /// Parses the rest of an escape outside of brackets.
    fn escape(&mut self) -> Result<Tree, PatternError> {
        match self.peek() {
            Some('b') => self.skip_to(Tree::Boundary(false)),
            Some('B') => self.skip_to(Tree::Boundary(true)),
            Some('A') => self.skip_to(Tree::Start),
            Some('z' | 'Z') => self.skip_to(Tree::End),
            Some(digit @ '1'..='9') => {
                Err(PatternError::invalid(format!("the back-reference '\\{digit}' is not supported")))
            }
            Some('k') => Err(PatternError::invalid("back-references ('\\k') are not supported")),
            _ => match self.escaped()? {
                Item::Char(literal) => self.literal(literal),
                Item::Class(class) => self.class(class),
                Item::Surrogate(_) => self.class(ClassUnicode::empty()),
            },
        }
    }

    fn skip_to(&mut self, tree: Tree) -> Result<Tree, PatternError> {
        self.next();
        Ok(tree)
    }

    /// Parses the rest of an escape that is valid everywhere.
    fn escaped(&mut self) -> Result<Item, PatternError> {
        let Some(escape) = self.next() else { return Err(PatternError::invalid("it ends with a '\\'")) };
        Ok(match escape {
            't' => Item::Char('\t'),
            'n' => Item::Char('\n'),
            'v' => Item::Char('\u{b}'),
            'f' => Item::Char('\u{c}'),
            'r' => Item::Char('\r'),
            '0' if !self.peek().is_some_and(|next| next.is_ascii_digit()) => Item::Char('\0'),
            'd' => Item::Class(ranges(&[('0', '9')])),
            'D' => Item::Class(negated(ranges(&[('0', '9')]))),
            'w' => Item::Class(word()),
            'W' => Item::Class(negated(word())),
            's' => Item::Class(space()),
            'S' => Item::Class(negated(space())),
            'p' | 'P' => self.property(escape)?,
            'c' => match self.next() {
                Some(letter) if letter.is_ascii_alphabetic() => Item::Char(char::from(letter as u8 % 32)),
                _ => return Err(PatternError::invalid("a letter must follow '\\c'")),
            },
            'x' => self.code_point(2)?,
            'u' => self.unicode()?,
            letter if letter.is_alphanumeric() => {
                return Err(PatternError::invalid(format!("the escape '\\{letter}' is not supported")));
            }
            other => Item::Char(other),
        })
    }

    fn unicode(&mut self) -> Result<Item, PatternError> {
        if self.eat('{') {
            let (digits, rest) = self.rest.split_once('}').unwrap_or_default();
            self.rest = rest;
            return item(digits);
        }
        let first = self.code_point(4)?;
        // A pair of surrogates is one character.
        if let Item::Surrogate(high @ 0xd800..=0xdbff) = first
            && let Some(low) = self.rest.strip_prefix("\\u").and_then(|rest| rest.get(..4))
            && let Ok(low @ 0xdc00..=0xdfff) = u32::from_str_radix(low, 16)
            && let Some(whole) = char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
        {
            self.rest = self.rest.get(6..).unwrap_or_default();
            return Ok(Item::Char(whole));
        }
        Ok(first)
    }

    fn code_point(&mut self, digits: usize) -> Result<Item, PatternError> {
        let (digits, rest) = self.rest.split_at_checked(digits).unwrap_or_default();
        self.rest = rest;
        item(digits)
    }

    /// Parses the rest of `\p{NAME}`, `\p{NAME=VALUE}` or `\pL`.
    fn property(&mut self, escape: char) -> Result<Item, PatternError> {
        let unknown = |name: &str| PatternError::invalid(format!("unknown '\\{escape}{{{name}}}'"));
        let name: String = match self.next() {
            Some('{') => {
                let (name, rest) = self.rest.split_once('}').unwrap_or_default();
                self.rest = rest;
                name.to_owned()
            }
            Some(letter) => letter.to_string(),
            None => String::new(),
        };
        let sound =
            (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "_=".contains(c));
        if !sound {
            return Err(unknown(&name.chars().take(64).collect::<String>()));
        }
        let text = format!("\\{escape}{{{name}}}");
        if let Some(class) = self.properties.get(&text) {
            return Ok(Item::Class(class.clone()));
        }
        let class = match regex_syntax::parse(&text).map(|hir| hir.into_kind()) {
            Ok(HirKind::Class(Class::Unicode(class))) => class,
            Ok(HirKind::Class(Class::Bytes(class))) => class.to_unicode_class().unwrap_or_else(ClassUnicode::empty),
            // One character.
            Ok(HirKind::Literal(literal)) => {
                let text = String::from_utf8_lossy(&literal.0).into_owned();
                ClassUnicode::new(text.chars().map(|c| ClassUnicodeRange::new(c, c)))
            }
            _ => return Err(unknown(&name)),
        };
        self.take_class(&class)?;
        self.properties.insert(text, class.clone());
        Ok(Item::Class(class))
    }

    /// Parses a class after its `[`.
    fn bracket(&mut self) -> Result<Tree, PatternError> {
        if self.rest.starts_with(':') && self.rest.contains(":]") {
            return Err(PatternError::invalid("'[:' is not supported; write the characters, such as a-z"));
        }
        let negate = self.eat('^');
        let mut class = ClassUnicode::empty();
        loop {
            let first = match self.bracket_item()? {
                None => break,
                Some(first) => first,
            };
            let ranged = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            if !ranged {
                self.add(&mut class, first)?;
                continue;
            }
            self.next();
            let Some(last) = self.bracket_item()? else { break };
            match (start_of(&first), start_of(&last)) {
                (Some(start), Some(end)) if start <= end => self.add_range(&mut class, start, end)?,
                (Some(_), Some(_)) => return Err(PatternError::invalid("a range of characters ends before it begins")),
                // Next to a class the '-' is a character.
                _ => {
                    self.add(&mut class, first)?;
                    self.add(&mut class, Item::Char('-'))?;
                    self.add(&mut class, last)?;
                }
            }
        }
        self.fold(&mut class)?;
        if negate {
            class.negate();
        }
        self.push_class(class)
    }

    /// Parses the next item of a class; `None` for its `]`.
    fn bracket_item(&mut self) -> Result<Option<Item>, PatternError> {
        match self.next() {
            None => Err(PatternError::invalid("unclosed '['")),
            Some(']') => Ok(None),
            Some('[') if self.rest.starts_with(':') && self.rest.contains(":]") => {
                Err(PatternError::invalid("'[:' is not supported; write the characters, such as a-z"))
            }
            Some('\\') if self.eat('b') => Ok(Some(Item::Char('\u{8}'))),
            Some('\\') => self.escaped().map(Some),
            Some(literal) => Ok(Some(Item::Char(literal))),
        }
    }

    fn add(&mut self, class: &mut ClassUnicode, item: Item) -> Result<(), PatternError> {
        match item {
            Item::Char(c) => self.add_range(class, c.into(), c.into()),
            Item::Surrogate(_) => Ok(()),
            Item::Class(other) => {
                self.take_class(&other)?;
                class.union(&other);
                Ok(())
            }
        }
    }

    /// Adds code points except surrogates.
    fn add_range(&mut self, class: &mut ClassUnicode, start: u32, end: u32) -> Result<(), PatternError> {
        for (first, last) in [(start, end.min(0xd7ff)), (start.max(0xe000), end)] {
            if let (Some(first), Some(last)) = (char::from_u32(first), char::from_u32(last))
                && first <= last
            {
                self.memory.take(size_of::<ClassUnicodeRange>())?;
                class.push(ClassUnicodeRange::new(first, last));
            }
        }
        Ok(())
    }

    fn take_tree(&mut self, nodes: usize) -> Result<(), PatternError> {
        self.memory.take(nodes * size_of::<Tree>())
    }

    fn take_class(&mut self, class: &ClassUnicode) -> Result<(), PatternError> {
        self.memory.take(size_of::<ClassUnicode>() + size_of_val(class.ranges()))
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    fn eat(&mut self, expected: char) -> bool {
        let rest = self.rest.strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

/// Parses a count such as `{2,5}`; `rest` begins after the `{`. Returns the minimum, the maximum and the number of bytes
/// parsed; `None` if the `{` is a plain character.
fn count(rest: &str) -> Result<Option<(u32, Option<u32>, usize)>, PatternError> {
    let Some((inside, _)) = rest.split_once('}') else { return Ok(None) };
    let (min, max) = match inside.split_once(',') {
        Some((min, max)) => (min, (!max.is_empty()).then_some(max)),
        None => (inside, Some(inside)),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(min) || !max.is_none_or(is_number) {
        return if min.is_empty() && max.is_some_and(is_number) {
            Err(PatternError::invalid(format!("'{{{inside}}}' is ambiguous; write '{{0{inside}}}'")))
        } else {
            Ok(None)
        };
    }
    let number = |text: &str| text.parse::<u32>().map_err(|_| PatternError::invalid(format!("'{text}' is too large")));
    Ok(Some((number(min)?, max.map(number).transpose()?, inside.len() + 1)))
}

/// Parses a code point in hexadecimal digits.
fn item(digits: &str) -> Result<Item, PatternError> {
    let hexadecimal = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let point = u32::from_str_radix(digits, 16).ok().filter(|_| hexadecimal);
    match point {
        Some(surrogate @ 0xd800..=0xdfff) => Ok(Item::Surrogate(surrogate)),
        Some(point) => char::from_u32(point).map(Item::Char).ok_or(()),
        None => Err(()),
    }
    .map_err(|()| PatternError::invalid("an escape with '\\x' or '\\u' is incomplete or out of range"))
}

fn start_of(item: &Item) -> Option<u32> {
    match item {
        Item::Char(c) => Some((*c).into()),
        Item::Surrogate(point) => Some(*point),
        Item::Class(_) => None,
    }
}

fn ranges(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|(first, last)| ClassUnicodeRange::new(*first, *last)))
}

fn any() -> ClassUnicode {
    ranges(&[('\0', char::MAX)])
}

fn negated(mut class: ClassUnicode) -> ClassUnicode {
    class.negate();
    class
}

fn word() -> ClassUnicode {
    ranges(&[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')])
}

/// Returns the white space and line ends of ECMA-262.
fn space() -> ClassUnicode {
    ranges(&[
        ('\t', '\r'),
        (' ', ' '),
        ('\u{a0}', '\u{a0}'),
        ('\u{1680}', '\u{1680}'),
        ('\u{2000}', '\u{200a}'),
        ('\u{2028}', '\u{2029}'),
        ('\u{202f}', '\u{202f}'),
        ('\u{205f}', '\u{205f}'),
        ('\u{3000}', '\u{3000}'),
        ('\u{feff}', '\u{feff}'),
    ])
}

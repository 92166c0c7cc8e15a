//! Checks an input against a compiled schema, with limits on steps and depth.

use std::{cmp::Ordering, collections::HashMap, fmt::Write as _};

use patchbay_core::text;
use serde_json::{Map, Number, Value};

use crate::{
    Rejection, Schema,
    keyword::{Index, Keyword, Node, Properties},
    limits, location, number,
    pattern::Scratch,
    value::{self, Exhausted, shown},
};

/// Checks an input in at most `steps` steps.
pub(crate) fn check(schema: &Schema, input: &Value, steps: u64) -> Result<(), Rejection> {
    let mut check = Check {
        schema,
        steps: Steps(steps),
        applied: 0,
        entered: 0,
        quiet: 0,
        problem: String::new(),
        place: Vec::new(),
        verdicts: HashMap::new(),
        scratch: Scratch::default(),
    };
    match check.apply(0, input) {
        Ok(()) => Ok(()),
        Err(CheckEnd::Invalid) => {
            let place = check.place.iter().rev().fold(String::new(), |mut place, part| {
                // Writing to a string does not fail.
                let _ = write!(place, "/{}", location::escape(part));
                place
            });
            Err(Rejection::Invalid { place, problem: check.problem })
        }
        Err(CheckEnd::Steps) => Err(Rejection::TooManySteps),
        Err(CheckEnd::Depth) => Err(Rejection::TooDeep),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckEnd {
    Invalid,
    Steps,
    Depth,
}

impl From<Exhausted> for CheckEnd {
    fn from(_: Exhausted) -> Self {
        Self::Steps
    }
}

/// Number of steps that are left.
pub(crate) struct Steps(u64);

impl Steps {
    pub(crate) fn take(&mut self, steps: u64) -> Result<(), Exhausted> {
        self.0 = self.0.checked_sub(steps).ok_or(Exhausted)?;
        Ok(())
    }

    /// Uses up the steps for reading `bytes` bytes.
    pub(crate) fn take_bytes(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.take(bytes as u64 / 32)
    }
}

struct Check<'a> {
    schema: &'a Schema,
    steps: Steps,
    /// Depth of schemas that are applied inside each other.
    applied: u32,
    /// Depth of the current value in the input.
    entered: u32,
    /// Above 0 while only the result matters, as in `anyOf`; then no error text is created.
    quiet: u32,
    problem: String,
    /// Names and positions on the path to the violation, the innermost first.
    place: Vec<String>,
    /// Results for nodes of a cycle, by node and address of the value. Without them, nested alternatives would be tried
    /// an exponential number of times.
    verdicts: HashMap<(Index, *const Value), bool>,
    scratch: Scratch,
}

impl<'a> Check<'a> {
    /// Applies a node, including its references, one level deeper.
    fn apply(&mut self, node: Index, value: &'a Value) -> Result<(), CheckEnd> {
        if self.applied >= limits::APPLIED_DEPTH {
            return Err(CheckEnd::Depth);
        }
        self.applied += 1;
        let result = self.follow(node, value);
        self.applied -= 1;
        result
    }

    fn follow(&mut self, mut index: Index, value: &'a Value) -> Result<(), CheckEnd> {
        let schema = self.schema;
        let mut first = true;
        // This loop ends because the compiler has refused circular references.
        while let Some(node) = schema.nodes.get(index as usize) {
            self.steps.take(1)?;
            if node.remember && self.quiet > 0 && (value.is_object() || value.is_array()) {
                let key = (index, std::ptr::from_ref(value));
                if let Some(valid) = self.verdicts.get(&key) {
                    return if *valid { Ok(()) } else { Err(CheckEnd::Invalid) };
                }
                if !first {
                    return self.apply(index, value);
                }
                let result = self.rules(node, value).and_then(|()| match node.reference {
                    Some(target) => self.apply(target, value),
                    None => Ok(()),
                });
                if let Ok(()) | Err(CheckEnd::Invalid) = result {
                    self.verdicts.insert(key, result.is_ok());
                }
                return result;
            }
            self.rules(node, value)?;
            let Some(target) = node.reference else { break };
            (index, first) = (target, false);
        }
        Ok(())
    }

    fn rules(&mut self, node: &'a Node, value: &'a Value) -> Result<(), CheckEnd> {
        if !node.types.allow(value) {
            return self.wrong_type(node, value);
        }
        for keyword in &node.keywords {
            self.steps.take(1)?;
            match value {
                Value::Object(object) if self.object_rule(keyword, object, value)? => {}
                Value::Array(items) if self.array_rule(keyword, items, value)? => {}
                Value::String(text) if self.string_rule(keyword, text, value)? => {}
                Value::Number(number) if self.number_rule(keyword, number, value)? => {}
                _ => self.any_rule(keyword, value)?,
            }
        }
        Ok(())
    }

    /// Applies a keyword that is for every type.
    fn any_rule(&mut self, keyword: &'a Keyword, value: &'a Value) -> Result<(), CheckEnd> {
        match keyword {
            Keyword::Never => self.violation(|| format!("the schema allows no value here, not {}", shown(value))),
            Keyword::Const(expected) => {
                if value::equal(value, expected, &mut self.steps)? {
                    return Ok(());
                }
                self.violation(|| format!("{} was expected", shown(expected)))
            }
            Keyword::Enum { options, sorted } => {
                if self.is_option(options, sorted.as_deref(), value)? {
                    return Ok(());
                }
                self.violation(|| format!("{} is not one of {}", shown(value), listed(options)))
            }
            Keyword::AllOf(schemas) => {
                for schema in schemas {
                    self.apply(*schema, value)?;
                }
                Ok(())
            }
            Keyword::AnyOf(schemas) => self.any_of(schemas, value),
            Keyword::OneOf(schemas) => self.one_of(schemas, value),
            Keyword::Not(schema) => {
                if !self.is_valid(*schema, value)? {
                    return Ok(());
                }
                self.violation(|| format!("{} is valid under the schema of 'not'", shown(value)))
            }
            Keyword::If { condition, then, otherwise } => {
                let branch = if self.is_valid(*condition, value)? { then } else { otherwise };
                branch.map_or(Ok(()), |schema| self.apply(schema, value))
            }
            // The keyword is for another type than the value's.
            _ => Ok(()),
        }
    }

    fn is_option(&mut self, options: &[Value], sorted: Option<&[u32]>, value: &Value) -> Result<bool, CheckEnd> {
        if let Some(sorted) = sorted {
            let Value::String(text) = value else { return Ok(false) };
            self.steps.take(u64::from(sorted.len().max(1).ilog2()))?;
            self.steps.take_bytes(text.len())?;
            let found = sorted.binary_search_by(|position| {
                let option = options.get(*position as usize).and_then(Value::as_str).unwrap_or_default();
                option.cmp(text)
            });
            return Ok(found.is_ok());
        }
        for option in options {
            if value::equal(value, option, &mut self.steps)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn any_of(&mut self, schemas: &'a [Index], value: &'a Value) -> Result<(), CheckEnd> {
        for schema in schemas {
            if self.is_valid(*schema, value)? {
                return Ok(());
            }
        }
        self.no_alternative("anyOf", schemas, value)
    }

    fn one_of(&mut self, schemas: &'a [Index], value: &'a Value) -> Result<(), CheckEnd> {
        let mut valid = false;
        for schema in schemas {
            if self.is_valid(*schema, value)? {
                if valid {
                    return self.violation(|| {
                        format!("{} is valid under more than one of the schemas listed in 'oneOf'", shown(value))
                    });
                }
                valid = true;
            }
        }
        if valid { Ok(()) } else { self.no_alternative("oneOf", schemas, value) }
    }

    /// Reports that no alternative is valid. If only one of them accepts the type of the value, as in an optional
    /// field, it reports that alternative's violation, which is more precise.
    #[cold]
    #[inline(never)]
    fn no_alternative(&mut self, keyword: &str, schemas: &'a [Index], value: &'a Value) -> Result<(), CheckEnd> {
        if self.quiet == 0 {
            let mut fitting = schemas.iter().filter(|schema| self.allows_type(**schema, value));
            if let (Some(only), None) = (fitting.next(), fitting.next()) {
                self.apply(*only, value)?;
            }
        }
        self.violation(|| format!("{} is not valid under any of the schemas listed in '{keyword}'", shown(value)))
    }

    fn allows_type(&self, mut index: Index, value: &Value) -> bool {
        while let Some(node) = self.schema.nodes.get(index as usize) {
            if !node.types.allow(value) {
                return false;
            }
            let Some(target) = node.reference else { break };
            index = target;
        }
        true
    }

    /// Returns whether the value is valid, without creating an error text.
    fn is_valid(&mut self, schema: Index, value: &'a Value) -> Result<bool, CheckEnd> {
        self.quiet += 1;
        let result = self.apply(schema, value);
        self.quiet -= 1;
        match result {
            Ok(()) => Ok(true),
            Err(CheckEnd::Invalid) => Ok(false),
            Err(limit) => Err(limit),
        }
    }

    /// Applies a keyword for objects. Returns false if `keyword` is of another kind.
    fn object_rule(
        &mut self,
        keyword: &'a Keyword,
        object: &'a Map<String, Value>,
        value: &'a Value,
    ) -> Result<bool, CheckEnd> {
        match keyword {
            Keyword::Required(names) => self.required(names, object)?,
            Keyword::Properties(properties) => self.properties(properties, object)?,
            Keyword::MinProperties(min) if (object.len() as u64) < *min => {
                self.violation(|| format!("{} has less than {}", shown(value), count(*min, "property", "properties")))?;
            }
            Keyword::MaxProperties(max) if object.len() as u64 > *max => {
                self.violation(|| format!("{} has more than {}", shown(value), count(*max, "property", "properties")))?;
            }
            Keyword::DependentRequired(rules) => {
                for (name, needed) in rules {
                    self.steps.take(1)?;
                    if object.contains_key(&**name) {
                        self.required(needed, object)?;
                    }
                }
            }
            Keyword::DependentSchemas(rules) => {
                for (name, schema) in rules {
                    self.steps.take(1)?;
                    if object.contains_key(&**name) {
                        self.apply(*schema, value)?;
                    }
                }
            }
            Keyword::PropertyNames(schema) => {
                for name in object.keys() {
                    // A name is a temporary value, so its address must not be used for remembered results.
                    self.steps.take_bytes(name.len())?;
                    self.name(*schema, name)?;
                }
            }
            Keyword::MinProperties(_) | Keyword::MaxProperties(_) => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Applies a schema to a property name, without remembering results.
    fn name(&mut self, schema: Index, name: &str) -> Result<(), CheckEnd> {
        let name = Value::from(name);
        let mut check = Check {
            schema: self.schema,
            steps: Steps(self.steps.0),
            applied: self.applied,
            entered: self.entered,
            quiet: self.quiet,
            problem: String::new(),
            place: Vec::new(),
            verdicts: HashMap::new(),
            scratch: std::mem::take(&mut self.scratch),
        };
        let result = check.apply(schema, &name);
        self.steps = Steps(check.steps.0);
        self.scratch = std::mem::take(&mut check.scratch);
        if result == Err(CheckEnd::Invalid) {
            let problem = std::mem::take(&mut check.problem);
            return self.violation(|| format!("the property name {} is invalid: {problem}", shown(&name)));
        }
        result
    }

    fn required(&mut self, names: &[Box<str>], object: &Map<String, Value>) -> Result<(), CheckEnd> {
        for name in names {
            self.steps.take(1)?;
            self.steps.take_bytes(name.len())?;
            if !object.contains_key(&**name) {
                return self.violation(|| format!("{} is a required property", shown(&Value::from(&**name))));
            }
        }
        Ok(())
    }

    fn properties(&mut self, rules: &'a Properties, object: &'a Map<String, Value>) -> Result<(), CheckEnd> {
        for position in &rules.visit {
            let Some((name, schema)) = rules.named.get(*position as usize) else { continue };
            self.steps.take(1)?;
            if let Some(value) = object.get(&**name) {
                self.enter(*schema, value, |place| place.push(name.to_string()))?;
            }
        }
        if rules.patterns.is_empty() && rules.additional.is_none() {
            return Ok(());
        }
        for (name, value) in object {
            self.steps.take(1 + u64::from(rules.named.len().max(1).ilog2()))?;
            self.steps.take_bytes(name.len())?;
            let mut known = rules.named.binary_search_by(|(known, _)| (**known).cmp(name)).is_ok();
            for (pattern, schema) in &rules.patterns {
                if self.matches(*pattern, name)? {
                    known = true;
                    self.enter(*schema, value, |place| place.push(name.clone()))?;
                }
            }
            let Some(additional) = rules.additional.filter(|_| !known) else { continue };
            if self.schema.nodes.get(additional as usize).is_some_and(Node::is_never) {
                let name = text::excerpt(name, 80);
                return self.violation(|| format!("Additional properties are not allowed ('{name}' was unexpected)"));
            }
            self.enter(additional, value, |place| place.push(name.clone()))?;
        }
        Ok(())
    }

    /// Applies a schema to a property or an item.
    fn enter(&mut self, schema: Index, value: &'a Value, name: impl FnOnce(&mut Vec<String>)) -> Result<(), CheckEnd> {
        if self.entered >= limits::INPUT_DEPTH {
            return Err(CheckEnd::Depth);
        }
        self.entered += 1;
        let result = self.apply(schema, value);
        self.entered -= 1;
        if result == Err(CheckEnd::Invalid) && self.quiet == 0 {
            name(&mut self.place);
        }
        result
    }

    /// Applies a keyword for arrays. Returns false if `keyword` is of another kind.
    fn array_rule(&mut self, keyword: &'a Keyword, items: &'a [Value], value: &'a Value) -> Result<bool, CheckEnd> {
        match keyword {
            Keyword::Items { prefix, rest } => {
                for (position, item) in items.iter().enumerate() {
                    let Some(schema) = prefix.get(position).or(rest.as_ref()) else { break };
                    self.enter(*schema, item, |place| place.push(position.to_string()))?;
                }
            }
            Keyword::MinItems(min) if (items.len() as u64) < *min => {
                self.violation(|| format!("{} has less than {}", shown(value), count(*min, "item", "items")))?;
            }
            Keyword::MaxItems(max) if items.len() as u64 > *max => {
                self.violation(|| format!("{} has more than {}", shown(value), count(*max, "item", "items")))?;
            }
            Keyword::UniqueItems => {
                if !value::all_unique(items, &mut self.steps)? {
                    self.violation(|| format!("{} has non-unique elements", shown(value)))?;
                }
            }
            Keyword::Contains { schema, min, max } => self.contains(*schema, *min, *max, items, value)?,
            Keyword::MinItems(_) | Keyword::MaxItems(_) => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn contains(
        &mut self,
        schema: Index,
        min: u64,
        max: Option<u64>,
        items: &'a [Value],
        value: &'a Value,
    ) -> Result<(), CheckEnd> {
        if self.entered >= limits::INPUT_DEPTH {
            return Err(CheckEnd::Depth);
        }
        let mut found = 0;
        self.entered += 1;
        for item in items {
            // More matches do not change the result.
            if found >= min && max.is_none_or(|max| found > max) {
                break;
            }
            found += u64::from(self.is_valid(schema, item)?);
        }
        self.entered -= 1;
        if found < min {
            return self.violation(|| {
                format!("{} has less than {} valid under 'contains'", shown(value), count(min, "item", "items"))
            });
        }
        match max {
            Some(max) if found > max => self.violation(|| {
                format!("{} has more than {} valid under 'contains'", shown(value), count(max, "item", "items"))
            }),
            _ => Ok(()),
        }
    }

    /// Applies a keyword for strings. Returns false if `keyword` is of another kind.
    fn string_rule(&mut self, keyword: &'a Keyword, text: &str, value: &Value) -> Result<bool, CheckEnd> {
        match keyword {
            // Characters are counted only if the number of bytes is not enough to decide.
            Keyword::MinLength(min) => {
                if (text.len() as u64) < *min || self.characters(text)? < *min {
                    self.violation(|| {
                        format!("{} is shorter than {}", shown(value), count(*min, "character", "characters"))
                    })?;
                }
            }
            Keyword::MaxLength(max) => {
                if text.len() as u64 > *max && self.characters(text)? > *max {
                    self.violation(|| {
                        format!("{} is longer than {}", shown(value), count(*max, "character", "characters"))
                    })?;
                }
            }
            Keyword::Pattern(pattern) => {
                if !self.matches(*pattern, text)? {
                    let pattern = self.schema.patterns.get(*pattern as usize).map_or("", |pattern| pattern.text());
                    let pattern = shown(&Value::from(pattern));
                    self.violation(|| format!("{} does not match {pattern}", shown(value)))?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn characters(&mut self, text: &str) -> Result<u64, CheckEnd> {
        self.steps.take_bytes(text.len())?;
        Ok(text.chars().count() as u64)
    }

    fn matches(&mut self, pattern: u32, text: &str) -> Result<bool, CheckEnd> {
        let Some(pattern) = self.schema.patterns.get(pattern as usize) else { return Ok(true) };
        Ok(pattern.is_match(text, &mut self.scratch, &mut self.steps)?)
    }

    /// Applies a keyword for numbers. Returns false if `keyword` is of another kind.
    fn number_rule(&mut self, keyword: &'a Keyword, number: &Number, value: &Value) -> Result<bool, CheckEnd> {
        match keyword {
            Keyword::Bound { limit, lower, exclusive } => {
                let order = number::compare(number, limit);
                let beyond = if *lower { Ordering::Less } else { Ordering::Greater };
                if order == beyond || (*exclusive && order == Ordering::Equal) {
                    let (than, name) = if *lower { ("less than", "minimum") } else { ("greater than", "maximum") };
                    let than = if *exclusive { format!("{than} or equal to") } else { than.to_owned() };
                    self.violation(|| format!("{} is {than} the {name} of {limit}", shown(value)))?;
                }
            }
            Keyword::MultipleOf(of) => {
                if !number::is_multiple(number, of) {
                    self.violation(|| format!("{} is not a multiple of {of}", shown(value)))?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    #[cold]
    #[inline(never)]
    fn wrong_type(&mut self, node: &Node, value: &Value) -> Result<(), CheckEnd> {
        self.violation(|| {
            let types: Vec<_> = node.types.names().map(|name| format!("\"{name}\"")).collect();
            let noun = if types.len() == 1 { "type" } else { "types" };
            format!("{} is not of {noun} {}", shown(value), types.join(", "))
        })
    }

    /// Ends the check, or only the current alternative, with a violation.
    #[cold]
    #[inline(never)]
    fn violation(&mut self, problem: impl FnOnce() -> String) -> Result<(), CheckEnd> {
        if self.quiet == 0 {
            self.problem = problem();
        }
        Err(CheckEnd::Invalid)
    }
}

fn count(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Lists the first options of an `enum` for an error message.
fn listed(options: &[Value]) -> String {
    const SHOWN: usize = 12;
    let mut texts: Vec<_> = options.iter().take(SHOWN).map(shown).collect();
    if options.len() > SHOWN {
        texts.push(format!("{} more", options.len() - SHOWN));
    }
    let last = texts.pop().unwrap_or_default();
    if texts.is_empty() { last } else { format!("{} or {last}", texts.join(", ")) }
}

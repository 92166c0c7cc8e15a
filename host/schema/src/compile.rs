//! Compiles a JSON Schema into nodes: one pass without recursion over everything that the root refers to. Each
//! subschema is read once and refers to others by index.

use std::collections::{HashMap, VecDeque};

use patchbay_core::text;
use serde_json::{Map, Number, Value};

use crate::{
    Schema, SchemaError,
    keyword::{Index, Keyword, NameList, Node, PatternIndex, Properties, Types},
    limits,
    location::{self, Unresolved},
    pattern::{Pattern, PatternError},
    unfold,
    value::shown,
};

/// How many patterns a component may still add, and how much memory for them. All tools of a component share one budget.
#[derive(Clone, Debug)]
pub struct PatternBudget {
    count: usize,
    bytes: usize,
}

impl Default for PatternBudget {
    fn default() -> Self {
        Self { count: limits::PATTERNS, bytes: limits::PATTERN_BYTES }
    }
}

/// The dialect. It decides the meaning of `items` and of keywords next to a `$ref`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Draft {
    Seven,
    TwentyTwenty,
}

impl Draft {
    fn of(schema: &Value) -> Self {
        let named = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let named = named.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('#');
        if named == "json-schema.org/draft-07/schema" { Self::Seven } else { Self::TwentyTwenty }
    }
}

/// Keywords that are refused, and their replacements.
const REFUSED: [(&str, &str); 8] = [
    ("unevaluatedProperties", "use 'additionalProperties'"),
    ("unevaluatedItems", "use 'items' beside 'prefixItems'"),
    ("$anchor", "use a '$ref' such as '#/$defs/NAME'"),
    ("$dynamicAnchor", "use a '$ref' such as '#/$defs/NAME'"),
    ("$dynamicRef", "use '$ref'"),
    ("$recursiveAnchor", "use a '$ref' such as '#'"),
    ("$recursiveRef", "use '$ref'"),
    ("$id", "remove it (only the top level may have an '$id')"),
];

pub(crate) fn compile(root: &Value, budget: &mut PatternBudget) -> Result<Schema, SchemaError> {
    if root.get("type").and_then(Value::as_str) != Some("object") {
        return Err(SchemaError::new(
            r#"does not have "type": "object" at its top level; a tool's input is an object"#,
        ));
    }
    check_depth(root)?;
    let mut compiler = SchemaCompiler {
        root,
        draft: Draft::of(root),
        sources: Vec::new(),
        indices: HashMap::new(),
        waiting: VecDeque::new(),
        patterns: Vec::new(),
        pattern_indices: HashMap::new(),
        budget,
    };
    compiler.index(root)?;
    let mut nodes = Vec::new();
    // Indices are assigned in the order of the queue.
    while let Some(schema) = compiler.waiting.pop_front() {
        nodes.push(compiler.node(schema)?);
    }
    if let Err(at) = unfold::check_references(&mut nodes) {
        let error = at.problem.error();
        let place = compiler.sources.get(at.node as usize).map(|schema| location::pointer_to(root, schema));
        return Err(match place.filter(|place| !place.is_empty()) {
            Some(place) => SchemaError::new(format_args!("{error}, at {}", text::excerpt(&place, 100))),
            None => error,
        });
    }
    order_visits(&mut nodes);
    Ok(Schema { nodes: nodes.into(), patterns: compiler.patterns.into() })
}

/// Refuses JSON that is nested too deep, even in parts that are not schemas.
fn check_depth(root: &Value) -> Result<(), SchemaError> {
    let mut level = vec![root];
    for _ in 0..=limits::SCHEMA_DEPTH {
        let mut below = Vec::new();
        for value in level {
            match value {
                Value::Array(items) => below.extend(items),
                Value::Object(pairs) => below.extend(pairs.values()),
                _ => {}
            }
        }
        if below.is_empty() {
            return Ok(());
        }
        level = below;
    }
    Err(SchemaError::new(format_args!("is nested more than {} levels deep", limits::SCHEMA_DEPTH)))
}

/// Sets the order in which properties are checked: schemas without subschemas first.
fn order_visits(nodes: &mut [Node]) {
    let leaves: Vec<bool> = nodes
        .iter()
        .map(|node| {
            let mut leaf = true;
            node.edges(|_, _| leaf = false);
            leaf
        })
        .collect();
    for node in nodes {
        for keyword in &mut node.keywords {
            if let Keyword::Properties(properties) = keyword {
                let named = &properties.named;
                let mut visit: Vec<u32> = (0..named.len() as u32).collect();
                visit.sort_by_key(|position| {
                    let schema = named.get(*position as usize).map(|(_, schema)| *schema as usize);
                    !schema.and_then(|schema| leaves.get(schema)).copied().unwrap_or_default()
                });
                properties.visit = visit.into();
            }
        }
    }
}

struct SchemaCompiler<'a, 'b> {
    root: &'a Value,
    draft: Draft,
    /// The schema of each index.
    sources: Vec<&'a Value>,
    indices: HashMap<*const Value, Index>,
    waiting: VecDeque<&'a Value>,
    patterns: Vec<Pattern>,
    pattern_indices: HashMap<&'a str, PatternIndex>,
    budget: &'b mut PatternBudget,
}

impl<'a> SchemaCompiler<'a, '_> {
    /// Returns the index of a subschema and queues it for compilation.
    fn index(&mut self, schema: &'a Value) -> Result<Index, SchemaError> {
        let key = std::ptr::from_ref(schema);
        if let Some(index) = self.indices.get(&key) {
            return Ok(*index);
        }
        // Each node counts at least once when references are unfolded.
        if self.sources.len() >= limits::UNFOLDED {
            return Err(unfold::ReferenceProblem::Unfolded.error());
        }
        let index = self.sources.len() as Index;
        self.sources.push(schema);
        self.indices.insert(key, index);
        self.waiting.push_back(schema);
        Ok(index)
    }

    fn node(&mut self, schema: &'a Value) -> Result<Node, SchemaError> {
        let mut node = Node { types: Types::ANY, keywords: Box::default(), reference: None, remember: false };
        let object = match schema {
            Value::Object(object) => object,
            Value::Bool(allowed) => {
                if !allowed {
                    node.keywords = Box::new([Keyword::Never]);
                }
                return Ok(node);
            }
            other => return Err(self.invalid(schema, "the subschema", other, "an object or a boolean")),
        };
        let reader = KeywordReader { object, schema };
        if let Some(reference) = object.get("$ref") {
            node.reference = Some(self.reference(&reader, reference)?);
            if self.draft == Draft::Seven {
                return Ok(node);
            }
        }
        self.check_supported(schema, object)?;
        node.types = self.types(&reader)?;
        let mut keywords = Vec::new();
        self.values(&reader, &mut keywords)?;
        self.scalars(&reader, &mut keywords)?;
        self.sizes(&reader, &mut keywords)?;
        self.objects(&reader, &mut keywords)?;
        self.arrays(&reader, &mut keywords)?;
        self.combinators(&reader, &mut keywords)?;
        node.keywords = keywords.into();
        Ok(node)
    }

    fn reference(&mut self, reader: &KeywordReader<'a>, reference: &'a Value) -> Result<Index, SchemaError> {
        let Some(target) = reference.as_str() else {
            return Err(self.invalid(reader.schema, "'$ref'", reference, "a string"));
        };
        match location::resolve(self.root, target) {
            Ok(schema) => self.index(schema),
            Err(unresolved) => {
                let leads = match unresolved {
                    Unresolved::Outside => "leads out of the schema; use one such as '#/$defs/NAME'",
                    Unresolved::Nowhere => "leads nowhere",
                };
                let target = text::excerpt(target, 80);
                Err(SchemaError::new(format_args!("has the '$ref' '{target}', which {leads}")))
            }
        }
    }

    fn check_supported(&self, schema: &Value, object: &Map<String, Value>) -> Result<(), SchemaError> {
        for (keyword, instead) in REFUSED {
            let Some(value) = object.get(keyword) else { continue };
            let harmless = match keyword {
                "$id" => std::ptr::eq(schema, self.root) || !value.is_string(),
                _ if keyword.starts_with("unevaluated") => *value == Value::Bool(true),
                _ => false,
            };
            if !harmless {
                return Err(SchemaError::new(format_args!("uses '{keyword}', which is not supported; {instead}")));
            }
        }
        Ok(())
    }

    fn types(&self, reader: &KeywordReader<'a>) -> Result<Types, SchemaError> {
        let Some(value) = reader.object.get("type") else { return Ok(Types::ANY) };
        let named = |name: &Value| name.as_str().and_then(Types::named);
        let types = match value {
            Value::Array(names) => names
                .iter()
                .try_fold(Types::NONE, |types, name| Some(types.or(named(name)?)))
                .filter(|_| !names.is_empty()),
            name => named(name),
        };
        types.ok_or_else(|| self.invalid(reader.schema, "'type'", value, "the name of a JSON type or a list of them"))
    }

    /// Compiles `const` and `enum`.
    fn values(&self, reader: &KeywordReader<'a>, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        if let Some(value) = reader.object.get("const") {
            keywords.push(Keyword::Const(value.clone()));
        }
        let Some(value) = reader.object.get("enum") else { return Ok(()) };
        let Value::Array(options) = value else {
            return Err(self.invalid(reader.schema, "'enum'", value, "a list"));
        };
        let sorted = options.iter().all(Value::is_string).then(|| {
            let mut sorted: Vec<u32> = (0..options.len() as u32).collect();
            sorted.sort_by_key(|position| options.get(*position as usize).and_then(Value::as_str));
            sorted.into()
        });
        keywords.push(Keyword::Enum { options: options.clone().into(), sorted });
        Ok(())
    }

    /// Compiles the keywords for numbers and strings.
    fn scalars(&mut self, reader: &KeywordReader<'a>, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        for (name, lower, exclusive) in [
            ("minimum", true, false),
            ("exclusiveMinimum", true, true),
            ("maximum", false, false),
            ("exclusiveMaximum", false, true),
        ] {
            if let Some(limit) = self.number(reader, name)? {
                keywords.push(Keyword::Bound { limit, lower, exclusive });
            }
        }
        if let Some(of) = self.number(reader, "multipleOf")? {
            if of.as_f64().is_none_or(|of| of <= 0.0) {
                return Err(self.invalid(reader.schema, "'multipleOf'", &Value::Number(of), "a number above 0"));
            }
            keywords.push(Keyword::MultipleOf(of));
        }
        keywords.extend(self.size(reader, "minLength")?.map(Keyword::MinLength));
        keywords.extend(self.size(reader, "maxLength")?.map(Keyword::MaxLength));
        if let Some(value) = reader.object.get("pattern") {
            let Value::String(pattern) = value else {
                return Err(self.invalid(reader.schema, "'pattern'", value, "a string"));
            };
            keywords.push(Keyword::Pattern(self.pattern(pattern)?));
        }
        Ok(())
    }

    /// Compiles the sizes of arrays and objects, `required` and `uniqueItems`.
    fn sizes(&self, reader: &KeywordReader<'a>, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        keywords.extend(self.size(reader, "minItems")?.map(Keyword::MinItems));
        keywords.extend(self.size(reader, "maxItems")?.map(Keyword::MaxItems));
        keywords.extend(self.size(reader, "minProperties")?.map(Keyword::MinProperties));
        keywords.extend(self.size(reader, "maxProperties")?.map(Keyword::MaxProperties));
        if let Some(value) = reader.object.get("required") {
            keywords.push(Keyword::Required(self.names(reader, "'required'", value)?));
        }
        match reader.object.get("uniqueItems") {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => keywords.push(Keyword::UniqueItems),
            Some(other) => return Err(self.invalid(reader.schema, "'uniqueItems'", other, "a boolean")),
        }
        Ok(())
    }

    fn objects(&mut self, reader: &KeywordReader<'a>, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        let mut required = Vec::new();
        let mut schemas = Vec::new();
        if self.draft == Draft::TwentyTwenty {
            for (name, value) in self.map(reader, "dependentRequired")? {
                required.push((name.as_str().into(), self.names(reader, "'dependentRequired'", value)?));
            }
            for (name, schema) in self.map(reader, "dependentSchemas")? {
                schemas.push((name.as_str().into(), self.index(schema)?));
            }
        } else {
            for (name, value) in self.map(reader, "dependencies")? {
                match value {
                    Value::Array(_) => {
                        required.push((name.as_str().into(), self.names(reader, "'dependencies'", value)?));
                    }
                    schema => schemas.push((name.as_str().into(), self.index(schema)?)),
                }
            }
        }
        if !required.is_empty() {
            keywords.push(Keyword::DependentRequired(required.into()));
        }
        if let Some(schema) = reader.object.get("propertyNames") {
            keywords.push(Keyword::PropertyNames(self.index(schema)?));
        }
        let mut named: Vec<(Box<str>, Index)> = Vec::new();
        for (name, schema) in self.map(reader, "properties")? {
            named.push((name.as_str().into(), self.index(schema)?));
        }
        named.sort();
        let mut patterns = Vec::new();
        for (pattern, schema) in self.map(reader, "patternProperties")? {
            patterns.push((self.pattern(pattern)?, self.index(schema)?));
        }
        let additional = reader.object.get("additionalProperties").map(|schema| self.index(schema)).transpose()?;
        if !named.is_empty() || !patterns.is_empty() || additional.is_some() {
            let properties =
                Properties { named: named.into(), visit: Box::default(), patterns: patterns.into(), additional };
            keywords.push(Keyword::Properties(Box::new(properties)));
        }
        if !schemas.is_empty() {
            keywords.push(Keyword::DependentSchemas(schemas.into()));
        }
        Ok(())
    }

    fn arrays(&mut self, reader: &KeywordReader<'a>, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        let items = reader.object.get("items");
        let (prefix, rest) = match (self.draft, items) {
            (Draft::TwentyTwenty, Some(list @ Value::Array(_))) if reader.object.contains_key("prefixItems") => {
                return Err(self.invalid(reader.schema, "'items'", list, "a schema when 'prefixItems' is present"));
            }
            // In 2020-12, `items` must not be a list. Generators that name no dialect, such as TypeBox, still write one,
            // with its meaning in draft-07.
            (_, Some(Value::Array(_))) => ("items", reader.object.get("additionalItems")),
            (Draft::Seven, rest) => ("", rest),
            (Draft::TwentyTwenty, rest) => ("prefixItems", rest),
        };
        let prefix = self.list(reader, prefix)?;
        let rest = rest.map(|schema| self.index(schema)).transpose()?;
        if !prefix.is_empty() || rest.is_some() {
            keywords.push(Keyword::Items { prefix: prefix.into(), rest });
        }
        if let Some(schema) = reader.object.get("contains") {
            let schema = self.index(schema)?;
            let (min, max) = match self.draft {
                Draft::Seven => (None, None),
                Draft::TwentyTwenty => (self.size(reader, "minContains")?, self.size(reader, "maxContains")?),
            };
            keywords.push(Keyword::Contains { schema, min: min.unwrap_or(1), max });
        }
        Ok(())
    }

    fn combinators(&mut self, reader: &KeywordReader<'a>, keywords: &mut Vec<Keyword>) -> Result<(), SchemaError> {
        for (name, keyword) in [
            ("allOf", Keyword::AllOf as fn(Box<[Index]>) -> Keyword),
            ("anyOf", Keyword::AnyOf),
            ("oneOf", Keyword::OneOf),
        ] {
            let schemas = self.list(reader, name)?;
            if !schemas.is_empty() {
                keywords.push(keyword(schemas.into()));
            }
        }
        if let Some(schema) = reader.object.get("not") {
            keywords.push(Keyword::Not(self.index(schema)?));
        }
        if let Some(condition) = reader.object.get("if") {
            let condition = self.index(condition)?;
            let mut branch = |name: &str| reader.object.get(name).map(|schema| self.index(schema)).transpose();
            let (then, otherwise) = (branch("then")?, branch("else")?);
            keywords.push(Keyword::If { condition, then, otherwise });
        }
        Ok(())
    }

    /// Reads a keyword whose value is a non-empty list of schemas. `name` may be empty for no keyword.
    fn list(&mut self, reader: &KeywordReader<'a>, name: &str) -> Result<Vec<Index>, SchemaError> {
        match reader.object.get(name).filter(|_| !name.is_empty()) {
            None => Ok(Vec::new()),
            Some(Value::Array(schemas)) if !schemas.is_empty() => {
                schemas.iter().map(|schema| self.index(schema)).collect()
            }
            // An empty list of `items` is allowed in draft-07 and has no effect.
            Some(Value::Array(_)) if name == "items" => Ok(Vec::new()),
            Some(other) => {
                Err(self.invalid(reader.schema, &format!("'{name}'"), other, "a list of at least one schema"))
            }
        }
    }

    /// Reads a keyword whose value is an object, such as `properties`.
    fn map(
        &self,
        reader: &KeywordReader<'a>,
        name: &str,
    ) -> Result<impl Iterator<Item = (&'a String, &'a Value)> + use<'a>, SchemaError> {
        match reader.object.get(name) {
            None => Ok(None.into_iter().flatten()),
            Some(Value::Object(map)) => Ok(Some(map).into_iter().flatten()),
            Some(other) => Err(self.invalid(reader.schema, &format!("'{name}'"), other, "an object")),
        }
    }

    fn names(&self, reader: &KeywordReader<'a>, keyword: &str, value: &'a Value) -> Result<NameList, SchemaError> {
        let names = value.as_array().and_then(|names| names.iter().map(|name| name.as_str().map(Box::from)).collect());
        names.ok_or_else(|| self.invalid(reader.schema, keyword, value, "a list of strings"))
    }

    fn number(&self, reader: &KeywordReader<'a>, name: &str) -> Result<Option<Number>, SchemaError> {
        match reader.object.get(name) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number.clone())),
            Some(other) => Err(self.invalid(reader.schema, &format!("'{name}'"), other, "a number")),
        }
    }

    fn size(&self, reader: &KeywordReader<'a>, name: &str) -> Result<Option<u64>, SchemaError> {
        let Some(value) = reader.object.get(name) else { return Ok(None) };
        let whole = value.as_f64().filter(|size| *size >= 0.0 && size.fract() == 0.0);
        // A float out of range is clamped.
        match value.as_u64().or(whole.map(|size| size as u64)) {
            Some(size) => Ok(Some(size)),
            None => Err(self.invalid(reader.schema, &format!("'{name}'"), value, "a whole number, 0 or more")),
        }
    }

    fn pattern(&mut self, pattern: &'a str) -> Result<PatternIndex, SchemaError> {
        if let Some(index) = self.pattern_indices.get(pattern) {
            return Ok(*index);
        }
        if self.budget.count == 0 {
            return Err(SchemaError::new(format_args!(
                "takes its component over the limit of {} patterns",
                limits::PATTERNS
            )));
        }
        self.budget.count -= 1;
        let compiled = Pattern::compile(pattern, self.budget.bytes).map_err(|error| match error {
            PatternError::Memory => SchemaError::new(format_args!(
                "takes the patterns of its component over the limit of {} MiB when they are compiled",
                limits::PATTERN_BYTES >> 20
            )),
            PatternError::Invalid(problem) => {
                let pattern = text::excerpt(pattern, 80);
                SchemaError::new(format_args!("has the pattern '{pattern}', which cannot be used: {problem}"))
            }
        })?;
        self.budget.bytes = self.budget.bytes.saturating_sub(compiled.bytes());
        let index = self.patterns.len() as PatternIndex;
        self.patterns.push(compiled);
        self.pattern_indices.insert(pattern, index);
        Ok(index)
    }

    /// Creates the error for a keyword with an invalid value.
    fn invalid(&self, schema: &Value, keyword: &str, value: &Value, expected: &str) -> SchemaError {
        let place = location::pointer_to(self.root, schema);
        let place = if place.is_empty() { String::new() } else { format!(" at {}", text::excerpt(&place, 100)) };
        SchemaError::new(format_args!("is invalid{place}: {keyword} is {}, but must be {expected}", shown(value)))
    }
}

/// The subschema that is being compiled.
struct KeywordReader<'a> {
    object: &'a Map<String, Value>,
    /// The same object as a value. Its address identifies the subschema in `root`.
    schema: &'a Value,
}

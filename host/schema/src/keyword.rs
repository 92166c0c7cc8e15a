//! The compiled form of a schema: nodes that refer to each other by index. `compile.rs` creates it, `validate.rs` reads
//! it.

use serde_json::{Number, Value};

/// Index of a node in [`Schema::nodes`](crate::Schema).
pub(crate) type Index = u32;
/// Index of a pattern in [`Schema::patterns`](crate::Schema).
pub(crate) type PatternIndex = u32;

/// A list of property names.
pub(crate) type NameList = Box<[Box<str>]>;

#[derive(Debug)]
pub(crate) struct Node {
    /// The types that `type` allows.
    pub types: Types,
    /// The other keywords, cheap ones first.
    pub keywords: Box<[Keyword]>,
    /// The target of `$ref`, applied after the keywords.
    pub reference: Option<Index>,
    /// True if a `$ref` in a cycle leads to this node. A check then remembers its results.
    pub remember: bool,
}

/// One keyword of a schema, or several that depend on each other.
#[derive(Debug)]
pub(crate) enum Keyword {
    /// The schema `false`, which no value matches.
    Never,
    Const(Value),
    /// `sorted` contains the indices of the options, sorted by string; `None` if an option is not a string.
    Enum {
        options: Box<[Value]>,
        sorted: Option<Box<[u32]>>,
    },
    Bound {
        limit: Number,
        /// True for a minimum, false for a maximum.
        lower: bool,
        exclusive: bool,
    },
    MultipleOf(Number),
    MinLength(u64),
    MaxLength(u64),
    MinItems(u64),
    MaxItems(u64),
    MinProperties(u64),
    MaxProperties(u64),
    Required(NameList),
    /// Each property with the names that are required if it is present.
    DependentRequired(Box<[(Box<str>, NameList)]>),
    Pattern(PatternIndex),
    UniqueItems,
    PropertyNames(Index),
    Properties(Box<Properties>),
    Items {
        prefix: Box<[Index]>,
        rest: Option<Index>,
    },
    Contains {
        schema: Index,
        min: u64,
        max: Option<u64>,
    },
    AllOf(Box<[Index]>),
    AnyOf(Box<[Index]>),
    OneOf(Box<[Index]>),
    Not(Index),
    If {
        condition: Index,
        then: Option<Index>,
        otherwise: Option<Index>,
    },
    /// Schemas for the whole object that apply if the property is present.
    DependentSchemas(Box<[(Box<str>, Index)]>),
}

/// `properties`, `patternProperties` and `additionalProperties`, which depend on each other.
#[derive(Debug, Default)]
pub(crate) struct Properties {
    /// The schemas of `properties`, sorted by name.
    pub named: Box<[(Box<str>, Index)]>,
    /// Positions in `named` in the order of checking: schemas without subschemas come first, because checking a
    /// discriminator early can save a large subtree.
    pub visit: Box<[u32]>,
    pub patterns: Box<[(PatternIndex, Index)]>,
    pub additional: Option<Index>,
}

/// The relation of a schema to a subschema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    /// A `$ref`, which applies to the same value.
    Reference,
    /// A subschema for the same value.
    InPlace,
    /// A subschema for a property, a property's name or an item.
    Into,
}

impl Node {
    /// Calls `f` for each node that this node refers to.
    pub(crate) fn edges(&self, mut f: impl FnMut(Index, Edge)) {
        for keyword in &self.keywords {
            keyword.edges(&mut f);
        }
        if let Some(target) = self.reference {
            f(target, Edge::Reference);
        }
    }

    pub(crate) fn is_never(&self) -> bool {
        matches!(*self.keywords, [Keyword::Never])
    }
}

impl Keyword {
    fn edges(&self, f: &mut impl FnMut(Index, Edge)) {
        match self {
            Self::PropertyNames(schema) => f(*schema, Edge::Into),
            Self::Contains { schema, .. } => f(*schema, Edge::Into),
            Self::Properties(properties) => {
                properties.named.iter().for_each(|(_, schema)| f(*schema, Edge::Into));
                properties.patterns.iter().for_each(|(_, schema)| f(*schema, Edge::Into));
                properties.additional.iter().for_each(|schema| f(*schema, Edge::Into));
            }
            Self::Items { prefix, rest } => prefix.iter().chain(rest).for_each(|schema| f(*schema, Edge::Into)),
            Self::AllOf(schemas) | Self::AnyOf(schemas) | Self::OneOf(schemas) => {
                schemas.iter().for_each(|schema| f(*schema, Edge::InPlace));
            }
            Self::Not(schema) => f(*schema, Edge::InPlace),
            Self::If { condition, then, otherwise } => {
                [Some(*condition), *then, *otherwise].iter().flatten().for_each(|schema| f(*schema, Edge::InPlace));
            }
            Self::DependentSchemas(schemas) => schemas.iter().for_each(|(_, schema)| f(*schema, Edge::InPlace)),
            _ => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const ANY: Self = Self(0xff);
    pub(crate) const NONE: Self = Self(0);
    const INTEGER: u8 = 4;
    const NUMBER: u8 = 8;
    const NAMES: [(&'static str, u8); 7] = [
        ("null", 1),
        ("boolean", 2),
        ("integer", Self::INTEGER),
        ("number", Self::NUMBER),
        ("string", 16),
        ("array", 32),
        ("object", 64),
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, bit)| Self(*bit))
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn allow(self, value: &Value) -> bool {
        let bits = match value {
            Value::Null => 1,
            Value::Bool(_) => 2,
            Value::Number(number) if self.0 & Self::NUMBER == 0 => {
                if crate::number::is_integer(number) {
                    Self::INTEGER
                } else {
                    0
                }
            }
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => 16,
            Value::Array(_) => 32,
            Value::Object(_) => 64,
        };
        self.0 & bits != 0
    }

    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(_, bit)| self.0 & bit != 0).map(|(name, _)| *name)
    }
}

//! A compiled schema: nodes that refer to each other by index.

use serde_json::{Number, Value};

/// Index of a node in [`Schema::nodes`](crate::Schema).
pub(crate) type Index = u32;
/// Index of a pattern in [`Schema::patterns`](crate::Schema).
pub(crate) type PatternIndex = u32;

/// Names of properties.
pub(crate) type Names = Box<[Box<str>]>;

/// One schema.
#[derive(Debug)]
pub(crate) struct Node {
    /// The types that `type` allows.
    pub types: Types,
    /// The other keywords, cheap ones first.
    pub keywords: Box<[Keyword]>,
    /// The target of `$ref`, applied after the keywords.
    pub reference: Option<Index>,
    /// Whether verdicts about this node are worth remembering: a reference of its own cycle leads to it.
    pub remember: bool,
}

/// What a schema asks for. Lists of names are sorted.
#[derive(Debug)]
pub(crate) enum Keyword {
    /// The schema `false`.
    Never,
    Const(Value),
    /// `sorted` has the positions of the options in the order of their texts, if all of them are strings.
    Enum {
        options: Box<[Value]>,
        sorted: Option<Box<[u32]>>,
    },
    Bound {
        limit: Number,
        /// Whether the value must be above the limit, not below it.
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
    Required(Names),
    /// Properties that are required if the first one is there.
    DependentRequired(Box<[(Box<str>, Names)]>),
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
    /// A schema for the whole object if the property is there.
    DependentSchemas(Box<[(Box<str>, Index)]>),
}

/// `properties`, `patternProperties` and `additionalProperties`, which depend on each other.
#[derive(Debug, Default)]
pub(crate) struct Properties {
    /// Sorted by name.
    pub named: Box<[(Box<str>, Index)]>,
    /// Positions in `named`: first the schemas that have no subschemas, so that a discriminator is looked at before a
    /// subtree is.
    pub visit: Box<[u32]>,
    pub patterns: Box<[(PatternIndex, Index)]>,
    pub additional: Option<Index>,
}

/// How a schema leads to another one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    /// `$ref`: the same value.
    Reference,
    /// The same value.
    InPlace,
    /// A property or an item of the value, or a property's name.
    Into,
}

impl Node {
    /// Calls `f` for each node that this one leads to.
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

/// A set of JSON types.
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

    pub(crate) fn and(self, other: Self) -> Self {
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

//! Generates `docs/wit.md` from the comments of the contract. `make docs` writes it.

use std::{fmt::Write as _, fs};

use wit_parser::{
    Docs, Enum, Function, Interface, InterfaceId, Package, Record, Resolve, Stability, Type, TypeDef, TypeDefKind,
    TypeOwner, Variant, World, WorldItem, WorldKey,
};

use crate::{documents::assert_document, repository};

const INTRODUCTION: &str = "\
# The contract

This page lists every function and type that a plugin can import or export. It is generated from the comments in
[`wit/`](../wit/README.md). You rarely need it with an SDK, whose functions have similar names.
[capabilities.md](capabilities.md) explains what the operator must grant, and [promise.md](promise.md) what never changes.

`patchbay plugin wit DIR` writes the same files in the layout that bindings generators read. Your project's `world.wit` selects
the interfaces: the world `skill-plugin` imports those that have existed since 0.1.0; later ones are imported by name:

```wit
world my-skill {
  include patchbay:skill/skill-plugin@0.1.2;
  import patchbay:host/skill-files@0.1.2;
}
```

If a component imports an interface that is newer than the host's contract, the host refuses to load the component.
";

#[test]
fn reference_of_the_contract_is_generated() {
    let mut resolve = Resolve::default();
    let packages = ["host", "skill", "provider"].map(|package| {
        let path = repository("wit").join(package).join(format!("{package}.wit"));
        // The parser treats plain comments between declarations as documentation too.
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| !is_plain_comment(line)).collect();
        resolve.push_str(&path, &lines.join("\n")).unwrap_or_else(|error| panic!("{error:#}"))
    });
    let reference = Reference { resolve: &resolve };
    let mut text = INTRODUCTION.to_owned();
    for package in packages {
        text += &reference.package(&resolve.packages[package]);
    }
    assert_document("docs/wit.md", &text);
}

fn is_plain_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") && !line.starts_with("///")
}

/// Renders packages as Markdown.
struct Reference<'a> {
    resolve: &'a Resolve,
}

impl Reference<'_> {
    fn package(&self, package: &Package) -> String {
        let mut text = format!("\n## {}\n\n{}", package.name, paragraphs(&package.docs));
        for (name, interface) in &package.interfaces {
            text += &self.interface(&format!("{}:{}/{name}", package.name.namespace, package.name.name), *interface);
        }
        for (name, world) in &package.worlds {
            let world = self.world(&self.resolve.worlds[*world]);
            write!(text, "### World {}:{}/{name}\n\n{world}", package.name.namespace, package.name.name).unwrap();
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    }

    fn interface(&self, name: &str, id: InterfaceId) -> String {
        let interface = &self.resolve.interfaces[id];
        let mut text = format!("### {name}\n\n");
        if let Stability::Stable { since, .. } = &interface.stability {
            write!(text, "Since {since}. ").unwrap();
        }
        text += &paragraphs(&interface.docs);
        for function in interface.functions.values() {
            text += &item(&self.signature(function), &function.docs, "");
        }
        let own = interface.types.iter().filter(|(_, of)| self.origin(&self.resolve.types[**of], id).is_none());
        for (name, of) in own {
            let of = &self.resolve.types[*of];
            text += &item(&self.declaration(name, of), &of.docs, &self.members(of));
        }
        for (name, types) in self.used(interface, id) {
            let types: Vec<_> = types.iter().map(|used| format!("`{used}`")).collect();
            writeln!(text, "- {} from `{name}`", types.join(", ")).unwrap();
        }
        if !text.ends_with("\n\n") {
            text.push('\n');
        }
        text
    }

    /// Returns the interfaces from which this one uses types, with the names of these types.
    fn used(&self, interface: &Interface, id: InterfaceId) -> Vec<(String, Vec<String>)> {
        let mut used: Vec<(String, Vec<String>)> = Vec::new();
        for (name, of) in &interface.types {
            let Some(origin) = self.origin(&self.resolve.types[*of], id) else { continue };
            let origin = self.resolve.interfaces[origin].name.clone().unwrap();
            match used.iter_mut().find(|(known, _)| *known == origin) {
                Some((_, types)) => types.push(name.clone()),
                None => used.push((origin, vec![name.clone()])),
            }
        }
        used
    }

    /// Returns the interface from which `use` imported a type; `None` if `id` declares the type itself.
    fn origin(&self, of: &TypeDef, id: InterfaceId) -> Option<InterfaceId> {
        let TypeDefKind::Type(Type::Id(target)) = of.kind else { return None };
        match self.resolve.types[target].owner {
            TypeOwner::Interface(owner) if owner != id => Some(owner),
            _ => None,
        }
    }

    fn signature(&self, function: &Function) -> String {
        let parameters: Vec<_> =
            function.params.iter().map(|of| format!("{}: {}", of.name, self.type_name(&of.ty))).collect();
        let result = function.result.as_ref().map(|of| format!(" -> {}", self.type_name(of)));
        format!("{}: func({}){}", function.name, parameters.join(", "), result.unwrap_or_default())
    }

    fn declaration(&self, name: &str, of: &TypeDef) -> String {
        match &of.kind {
            // Members with comments are listed below instead.
            kind if self.has_documented_members(of) => format!("{} {name}", kind.as_str()),
            TypeDefKind::Record(Record { fields }) => {
                let fields: Vec<_> =
                    fields.iter().map(|of| format!("{}: {}", of.name, self.type_name(&of.ty))).collect();
                format!("record {name} {{ {} }}", fields.join(", "))
            }
            TypeDefKind::Variant(Variant { cases }) => {
                let cases: Vec<_> = cases.iter().map(|of| self.case(&of.name, of.ty.as_ref())).collect();
                format!("variant {name} {{ {} }}", cases.join(", "))
            }
            TypeDefKind::Enum(Enum { cases }) => {
                let cases: Vec<_> = cases.iter().map(|of| of.name.as_str()).collect();
                format!("enum {name} {{ {} }}", cases.join(", "))
            }
            TypeDefKind::Type(target) => format!("type {name} = {}", self.type_name(target)),
            // A named list, option and so on.
            kind => format!("type {name} = {}", self.kind_name(kind)),
        }
    }

    fn has_documented_members(&self, of: &TypeDef) -> bool {
        let documented = |docs: &Docs| docs.contents.is_some();
        match &of.kind {
            TypeDefKind::Record(record) => record.fields.iter().any(|field| documented(&field.docs)),
            TypeDefKind::Variant(variant) => variant.cases.iter().any(|case| documented(&case.docs)),
            _ => false,
        }
    }

    /// Returns a nested list of the members with their comments. Empty if none has a comment.
    fn members(&self, of: &TypeDef) -> String {
        if !self.has_documented_members(of) {
            return String::new();
        }
        let members: Vec<_> = match &of.kind {
            TypeDefKind::Record(record) => {
                let name = |name: &str, of: &Type| format!("{name}: {}", self.type_name(of));
                record.fields.iter().map(|field| (name(&field.name, &field.ty), &field.docs)).collect()
            }
            TypeDefKind::Variant(variant) => {
                variant.cases.iter().map(|of| (self.case(&of.name, of.ty.as_ref()), &of.docs)).collect()
            }
            _ => Vec::new(),
        };
        members.into_iter().map(|(name, docs)| item(&name, docs, "")).collect()
    }

    fn case(&self, name: &str, payload: Option<&Type>) -> String {
        payload.map_or_else(|| name.to_owned(), |payload| format!("{name}({})", self.type_name(payload)))
    }

    fn world(&self, world: &World) -> String {
        let mut text = paragraphs(&world.docs);
        for (verb, items) in [("imports", &world.imports), ("exports", &world.exports)] {
            for (key, item) in items {
                // An interface that exists only for its types is left out.
                let by_name = matches!(item, WorldItem::Interface { .. }) && !self.is_only_types(key);
                if by_name {
                    writeln!(text, "- {verb} `{}`", self.resolve.name_world_key(key)).unwrap();
                }
            }
        }
        text + "\n"
    }

    fn is_only_types(&self, key: &WorldKey) -> bool {
        matches!(key, WorldKey::Interface(id) if self.resolve.interfaces[*id].functions.is_empty())
    }

    fn type_name(&self, of: &Type) -> String {
        let Type::Id(id) = of else { return primitive(of).to_owned() };
        let of = &self.resolve.types[*id];
        of.name.clone().unwrap_or_else(|| self.kind_name(&of.kind))
    }

    /// Returns a type without a name of its own, such as `list<u8>`.
    fn kind_name(&self, kind: &TypeDefKind) -> String {
        let part = |of: &Option<Type>| of.as_ref().map_or_else(|| "_".to_owned(), |of| self.type_name(of));
        match kind {
            TypeDefKind::List(of) => format!("list<{}>", self.type_name(of)),
            TypeDefKind::Option(of) => format!("option<{}>", self.type_name(of)),
            TypeDefKind::Result(of) => match (&of.ok, &of.err) {
                (_, None) => format!("result<{}>", part(&of.ok)),
                _ => format!("result<{}, {}>", part(&of.ok), part(&of.err)),
            },
            TypeDefKind::Tuple(of) => {
                let types: Vec<_> = of.types.iter().map(|of| self.type_name(of)).collect();
                format!("tuple<{}>", types.join(", "))
            }
            other => panic!("the contract has a {}, which this test cannot write", other.as_str()),
        }
    }
}

fn primitive(of: &Type) -> &'static str {
    match of {
        Type::Bool => "bool",
        Type::U8 => "u8",
        Type::U16 => "u16",
        Type::U32 => "u32",
        Type::U64 => "u64",
        Type::S8 => "s8",
        Type::S16 => "s16",
        Type::S32 => "s32",
        Type::S64 => "s64",
        Type::F32 => "f32",
        Type::F64 => "f64",
        Type::Char => "char",
        Type::String => "string",
        Type::ErrorContext => "error-context",
        Type::Id(_) => panic!("a type with an id is not primitive"),
    }
}

/// Returns a comment as paragraphs followed by a blank line; empty if there is none.
fn paragraphs(docs: &Docs) -> String {
    docs.contents.as_deref().map(|text| separated(text.trim_end()) + "\n\n").unwrap_or_default()
}

/// Adds the blank line that Markdown needs before the first entry of a list.
fn separated(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines() {
        let is_entry = |line: &&str| line.starts_with("- ");
        let continues = |line: &&str| line.starts_with("  ");
        if is_entry(&line) && lines.last().is_some_and(|last| !last.is_empty() && !is_entry(last) && !continues(last)) {
            lines.push("");
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// Returns an entry of a list: code, its comment, and entries below it.
fn item(code: &str, docs: &Docs, below: &str) -> String {
    let docs = separated(docs.contents.as_deref().unwrap_or_default().trim_end());
    let mut text = format!("- `{code}`\n");
    for line in docs.lines().chain(below.lines()) {
        text += &if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") };
    }
    text
}

//! Bounds on the shape of the host: how many files use each other in a cycle, and how long files, functions and structs are. Tests
//! are not counted. Exceptions are listed here with a reason, and the lists may only shrink.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use syn::{
    Attribute, File, ImplItemFn, Item, ItemFn, ItemMod, ItemStruct, ItemUse, Meta, TraitItemFn, UseTree, Visibility,
    visit::{self, Visit},
};

use crate::repository;

/// Maximum number of files of a crate that may use each other, directly or through others.
const CIRCLE: usize = 3;
const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 80;
const FIELDS: usize = 20;

/// Larger cycles: the crate, the number of files, and the reason.
const CIRCLES: &[(&str, usize, &str)] = &[
    ("agent", 8, "the toolbox makes its tools from the parts of the agent that they read"),
    ("egress", 4, "the secrets of files and of commands are read through the lookup that has both"),
    ("egress", 9, "what is scrubbed is found in requests, whose errors are scrubbed"),
    ("mcp", 10, "the server's fronts serve the sessions that they open"),
    ("provider", 4, "an entry of the registry is judged by the claims of the others"),
    ("provider", 6, "Providers has its methods by topic, each in a file"),
    ("provider", 9, "an exchange is one state, which its steps change"),
    ("sandbox", 10, "the adapter's world is compiled by the engine that its steps run in"),
    ("sandbox", 17, "each capability is implemented on the state that has all of them"),
    ("schema", 7, "the regular expressions of a schema match the values that it validates"),
    ("skill", 15, "discovery reads the files that the manifest names, and the manifest reads them"),
    ("store", 12, "Store has its methods by topic, each in a file; a commit has parts of all of them"),
    ("tools", 5, "a call is recorded with its errors, which name the call"),
];

/// Longer files: the path below `host`, and the reason.
const LONG_FILES: &[(&str, &str)] = &[
    ("provider/src/providers/ask.rs", "one request with its fallbacks"),
    ("repl/src/terminal/transcript.rs", "each kind of event to its lines"),
    ("schema/src/pattern/parse.rs", "the grammar of a regular expression"),
    ("schema/src/validate.rs", "one function for each keyword"),
    ("session/src/line/queue.rs", "the rules of the queue under one lock"),
    ("store/src/journal.rs", "one row with its filters"),
];

/// Longer functions: the path below `host` with the name, and the reason.
const LONG_FUNCTIONS: &[(&str, &str)] = &[];

/// Structs with more fields: the path below `host` with the name, and the reason.
const WIDE_STRUCTS: &[(&str, &str)] = &[
    ("session/src/session.rs Session", "the parts of a session, each with its own lock"),
    ("store/src/change.rs SessionChange", "what one commit may contain; most of it is empty"),
    ("store/src/journal.rs JournalRow", "the columns of one table"),
];

pub(crate) struct Source {
    /// The path below `host`, with `/` between its segments.
    pub(crate) path: String,
    /// The path of its module, such as `["line", "accept"]`.
    module: Vec<String>,
    pub(crate) syntax: File,
    /// Number of lines, not counting tests.
    lines: usize,
}

struct Used {
    path: Vec<String>,
    /// The item's name in this module; `None` for a path in an expression.
    name: Option<String>,
    /// Whether other modules can use the item from here under that name.
    is_exported: bool,
}

pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string().starts_with("test"),
        meta => meta.path().is_ident("test"),
    })
}

fn lines_of(item: &impl syn::spanned::Spanned) -> usize {
    let span = item.span();
    span.end().line + 1 - span.start().line
}

/// Returns the product files of each crate.
pub(crate) fn crates() -> BTreeMap<String, Vec<Source>> {
    let host = repository("host");
    let mut crates = BTreeMap::new();
    for entry in fs::read_dir(&host).unwrap() {
        let root = entry.unwrap().path();
        let (mut sources, mut folders) = (Vec::new(), vec![root.join("src")]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
                if path.is_dir() && stem != "tests" && stem != "bin" {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") && !["tests", "testing"].contains(&&*stem) {
                    sources.push(source(&host, &root, &path));
                }
            }
        }
        sources.sort_by(|one, other| one.path.cmp(&other.path));
        crates.insert(root.file_name().unwrap().to_str().unwrap().to_owned(), sources);
    }
    crates
}

fn source(host: &Path, root: &Path, path: &Path) -> Source {
    let text = fs::read_to_string(path).unwrap();
    let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let below = path.strip_prefix(root.join("src")).unwrap().with_extension("");
    let mut module: Vec<String> = below.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    module.pop_if(|last| ["mod", "lib", "main"].contains(&&**last));
    let tests: usize = syntax
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Mod(module) if is_test(&module.attrs) => Some(lines_of(module)),
            _ => None,
        })
        .sum();
    let path = path.strip_prefix(host).unwrap().to_str().unwrap().to_owned();
    Source { path, module, lines: text.lines().count() - tests, syntax }
}

/// Collects the paths that a file uses, outside of tests.
#[derive(Default)]
struct Uses(Vec<Used>);

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_exported = !matches!(item.vis, Visibility::Inherited);
        self.add(&item.tree, Vec::new(), is_exported);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if ["crate", "super", "self"].contains(&&*segments[0]) && segments.len() > 1 {
            self.0.push(Used { path: segments, name: None, is_exported: false });
        }
        visit::visit_path(self, path);
    }
}

impl Uses {
    fn add(&mut self, tree: &UseTree, mut path: Vec<String>, is_exported: bool) {
        match tree {
            UseTree::Path(next) => {
                path.push(next.ident.to_string());
                self.add(&next.tree, path, is_exported);
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add(tree, path.clone(), is_exported)),
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                if name != "self" {
                    path.push(name.clone());
                }
                self.0.push(Used { path, name: Some(name), is_exported });
            }
            UseTree::Rename(rename) => {
                path.push(rename.ident.to_string());
                self.0.push(Used { path, name: Some(rename.rename.to_string()), is_exported });
            }
            UseTree::Glob(_) => self.0.push(Used { path, name: None, is_exported }),
        }
    }
}

/// A crate's modules by path, with the items that each uses.
struct Modules(BTreeMap<Vec<String>, Vec<Used>>);

impl Modules {
    fn of(sources: &[Source]) -> Self {
        let modules = sources.iter().map(|source| {
            let mut uses = Uses::default();
            uses.visit_file(&source.syntax);
            (source.module.clone(), uses.0)
        });
        Self(modules.collect())
    }

    /// Returns the path from the root of the crate; `None` for the path of another crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match &**first {
            "crate" => Some(rest.to_vec()),
            "self" => Some([module, rest].concat()),
            "super" => {
                let up = path.iter().take_while(|part| *part == "super").count();
                Some([&module[..module.len().checked_sub(up)?], &path[up..]].concat())
            }
            _ => {
                let child = [module, std::slice::from_ref(first)].concat();
                self.0.contains_key(&child).then(|| [module, path].concat())
            }
        }
    }

    /// Returns the module that a path from the root leads to, following re-exports.
    fn target(&self, path: &[String], depth: usize) -> Option<&Vec<String>> {
        let (module, uses) = (0..=path.len())
            .rev()
            .find_map(|end| self.0.get_key_value(&path[..end]).map(|found| (found.0, found.1)))?;
        let passed_on = path.get(module.len()).filter(|_| depth < 5).and_then(|name| {
            let used = uses.iter().find(|used| used.name.as_ref() == Some(name))?;
            let from = self.absolute(module, &used.path)?;
            if from == path { None } else { self.target(&from, depth + 1) }
        });
        passed_on.or(Some(module))
    }

    /// Returns the groups of modules that use each other.
    fn circles(&self) -> Vec<BTreeSet<&Vec<String>>> {
        let arrows: BTreeMap<_, BTreeSet<_>> = self
            .0
            .iter()
            .map(|(module, uses)| {
                // Re-exports of a crate's root are its map, and do not count as uses.
                let used = uses.iter().filter(|used| !(module.is_empty() && used.is_exported));
                let targets = used.filter_map(|used| self.target(&self.absolute(module, &used.path)?, 0));
                (module, targets.filter(|target| *target != module).collect())
            })
            .collect();
        let reached = |from| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(module) = next.pop() {
                next.extend(arrows[module].iter().filter(|target| reached.insert(**target)));
            }
            reached
        };
        let reach: BTreeMap<_, _> = self.0.keys().map(|module| (module, reached(module))).collect();
        let circle = |module| -> BTreeSet<_> {
            reach[module].iter().copied().filter(|other| reach[other].contains(module)).collect()
        };
        self.0.keys().map(circle).filter(|circle| circle.len() > 1).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Finds functions and structs, outside of tests.
#[derive(Default)]
struct Sizes {
    /// The name of each function, and its lines.
    functions: Vec<(String, usize)>,
    /// The name of each struct, and its fields.
    structs: Vec<(String, usize)>,
}

impl<'ast> Visit<'ast> for Sizes {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        let lines = lines_of(&function.sig) + lines_of(&function.block) - 1;
        self.functions.push((function.sig.ident.to_string(), lines));
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        let lines = lines_of(&function.sig) + lines_of(&function.block) - 1;
        self.functions.push((function.sig.ident.to_string(), lines));
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.functions.push((function.sig.ident.to_string(), lines_of(&function.sig)));
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.structs.push((item.ident.to_string(), item.fields.len()));
    }
}

/// Returns the entries that exceed a bound and are not listed, and the listed ones that no longer exceed it.
fn problems(
    over: BTreeMap<String, String>,
    listed: impl IntoIterator<Item = String>,
    bound: usize,
    what: &str,
) -> String {
    let listed: BTreeSet<String> = listed.into_iter().collect();
    let new = over.iter().filter(|(name, _)| !listed.contains(*name)).map(|(_, shown)| format!("{shown}\n"));
    let within = listed.iter().filter(|name| !over.contains_key(*name));
    let within = within.map(|name| format!("{name} is within it: take it off the list\n"));
    let problems: String = new.chain(within).collect();
    if problems.is_empty() { problems } else { format!("{what}; the bound is {bound}:\n{problems}") }
}

#[test]
fn few_files_use_each_other_in_a_circle() {
    let mut over = BTreeMap::new();
    for (name, sources) in crates() {
        let modules = Modules::of(&sources);
        for circle in modules.circles().into_iter().filter(|circle| circle.len() > CIRCLE) {
            let files: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
            over.insert(format!("{name} {}", circle.len()), format!("{name}, {}: {}", circle.len(), files.join(" ")));
        }
    }
    let listed = CIRCLES.iter().map(|(name, size, _)| format!("{name} {size}"));
    let problems = problems(over, listed, CIRCLE, "files that use each other");
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn files_functions_and_structs_are_small() {
    let (mut files, mut functions, mut structs) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let all = crates();
    assert!(all.values().map(Vec::len).sum::<usize>() > 400, "the sources are not found");
    for source in all.values().flatten() {
        let Source { path, lines, syntax, .. } = source;
        let mut sizes = Sizes::default();
        sizes.visit_file(syntax);
        let over = |named: Vec<(String, usize)>, bound| {
            let over = named.into_iter().filter(move |(_, size)| *size > bound);
            over.map(move |(name, size)| (format!("{path} {name}"), format!("{path} {name}: {size}")))
        };
        files.extend((*lines > FILE_LINES).then(|| (path.clone(), format!("{path}: {lines}"))));
        functions.extend(over(sizes.functions, FUNCTION_LINES));
        structs.extend(over(sizes.structs, FIELDS));
    }
    let names = |list: &[(&str, &str)]| list.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
    let problems = [
        problems(files, names(LONG_FILES), FILE_LINES, "lines of a file"),
        problems(functions, names(LONG_FUNCTIONS), FUNCTION_LINES, "lines of a function"),
        problems(structs, names(WIDE_STRUCTS), FIELDS, "fields of a struct"),
    ];
    assert!(problems.iter().all(String::is_empty), "{}", problems.concat());
}

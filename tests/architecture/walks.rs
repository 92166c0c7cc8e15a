//! Checks the call paths in docs/architecture.md that name functions: each function exists and is called by an earlier one, and the
//! path stays short.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use syn::{
    Block, ImplItemFn, ItemFn, TraitItemFn,
    visit::{self, Visit},
};

use crate::repository;

/// The longest path: the number of functions, and of files.
const STEPS: usize = 20;
const FILES: usize = 12;

/// The bodies of the functions of a file, by name.
#[derive(Default)]
struct Functions(BTreeMap<String, Vec<Block>>);

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.0.entry(item.sig.ident.to_string()).or_default().push((*item.block).clone());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.0.entry(item.sig.ident.to_string()).or_default().push(item.block.clone());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.0.entry(item.sig.ident.to_string()).or_default().extend(item.default.clone());
        visit::visit_trait_item_fn(self, item);
    }
}

/// The names of the functions and methods that a body calls.
#[derive(Default)]
struct Calls(BTreeSet<String>);

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.0.insert(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(path) = &*call.func {
            self.0.extend(path.path.segments.last().map(|last| last.ident.to_string()));
        }
        visit::visit_expr_call(self, call);
    }

    /// Calls in macro arguments, such as in `tokio::select!`, are not parsed. Each name before a parenthesis counts as a call.
    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        let text = mac.tokens.to_string();
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.windows(2).filter(|pair| pair[1].starts_with('(')) {
            self.0.insert(pair[0].rsplit([':', '.']).next().unwrap_or_default().to_owned());
        }
    }
}

fn functions(path: &str) -> Functions {
    let text = fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut functions = Functions::default();
    functions.visit_file(&syn::parse_file(&text).unwrap());
    functions
}

fn calls(bodies: &[Block]) -> BTreeSet<String> {
    let mut calls = Calls::default();
    bodies.iter().for_each(|body| calls.visit_block(body));
    calls.0
}

#[test]
fn walks_name_functions_that_call_each_other() {
    let text = fs::read_to_string(repository("docs/architecture.md")).unwrap();
    let mut walks = 0;
    for section in text.split("\n### ").skip(1) {
        let title = section.lines().next().unwrap_or_default();
        let section = section.split("\n## ").next().unwrap_or_default();
        let steps: Vec<(&str, &str)> = section.split('`').filter_map(|code| code.split_once(".rs#")).collect();
        if steps.is_empty() {
            continue;
        }
        let files: BTreeSet<&str> = steps.iter().map(|(file, _)| *file).collect();
        assert!(steps.len() <= STEPS && files.len() <= FILES, "{title}: {} steps, {} files", steps.len(), files.len());
        let mut called = BTreeSet::new();
        for (index, (file, function)) in steps.iter().enumerate() {
            let path = format!("{file}.rs");
            let bodies = functions(&path).0.remove(*function).unwrap_or_default();
            assert!(!bodies.is_empty(), "{title}: {path} has no function '{function}'");
            assert!(
                index == 0 || called.contains(*function),
                "{title}: nothing before it calls '{function}' of {path}"
            );
            called.extend(calls(&bodies));
        }
        walks += 1;
    }
    assert_eq!(walks, 3, "the walks are not found");
}

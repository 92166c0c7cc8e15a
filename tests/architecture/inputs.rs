//! Checks that the crates that write sessions read the wall clock and random numbers only through `store::Source`. `Instant` is
//! allowed, because it measures and ends waits, and its value cannot be stored.

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, ImplItemFn, ItemFn, ItemMod, Macro,
    visit::{self, Visit},
};

use crate::shape::{crates, is_test};

const CRATES: &[&str] = &["store", "events", "tools", "agent", "session"];
/// The only file that may read both.
const SOURCE: &str = "store/src/source.rs";

/// The ends of paths that read a clock or create random values.
const INPUTS: &[&str] = &[
    "SystemTime::now",
    "Timestamp::now",
    "Zoned::now",
    "Uuid::new_v4",
    "Uuid::now_v7",
    "SessionId::random",
    "AgentId::random",
    "LineId::random",
    "CallId::random",
    "getrandom::fill",
    "RandomState::new",
];
/// SQL functions with the same effect.
const SQL: &[&str] = &["strftime(", "unixepoch(", "julianday(", "CURRENT_TIMESTAMP", "random(", "randomblob(", "'now'"];

/// Collects the files that a source file includes, outside of tests.
#[derive(Default)]
struct Inputs(Vec<String>);

impl Inputs {
    fn check(&mut self, path: &str) {
        let names = |input: &&&str| path == **input || path.ends_with(&format!("::{input}"));
        self.0.extend(INPUTS.iter().find(names).map(|input| (*input).to_owned()));
    }

    fn check_literal(&mut self, text: &str) {
        self.0.extend(SQL.iter().filter(|sql| text.contains(**sql)).map(|sql| (*sql).to_owned()));
    }

    /// Checks the arguments of a macro, which are not parsed.
    fn check_tokens(&mut self, tokens: TokenStream) {
        let mut path = String::new();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if !path.ends_with("::") {
                        path.clear();
                    }
                    path += &ident.to_string();
                    self.check(&path);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => path.push(':'),
                TokenTree::Punct(_) => path.clear(),
                TokenTree::Literal(literal) => self.check_literal(&literal.to_string()),
                TokenTree::Group(group) => self.check_tokens(group.stream()),
            }
        }
    }
}

fn is_product(attributes: &[Attribute]) -> bool {
    !is_test(attributes)
}

impl<'ast> Visit<'ast> for Inputs {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if is_product(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if is_product(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if is_product(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.check(&segments.join("::"));
        visit::visit_path(self, path);
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.check_literal(&literal.value());
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_macro(&mut self, called: &'ast Macro) {
        self.check_tokens(called.tokens.clone());
    }
}

fn inputs(syntax: &syn::File) -> Vec<String> {
    let mut inputs = Inputs::default();
    inputs.visit_file(syntax);
    inputs.0
}

#[test]
fn times_and_ids_of_sessions_come_from_the_source() {
    let mut problems = String::new();
    for (name, sources) in crates() {
        if !CRATES.contains(&&*name) {
            continue;
        }
        for source in sources {
            let found = inputs(&source.syntax);
            if source.path == SOURCE {
                assert_eq!(found, ["SystemTime::now", "Uuid::new_v4"], "{SOURCE}");
            } else if !found.is_empty() {
                problems += &format!("{} uses {}\n", source.path, found.join(", "));
            }
        }
    }
    assert!(problems.is_empty(), "use `Store::source` instead:\n{problems}");
}

#[test]
fn every_kind_of_input_is_found() {
    let found = |text: &str| inputs(&syn::parse_file(text).unwrap());
    for (text, input) in [
        ("fn a() { std::time::SystemTime::now(); }", "SystemTime::now"),
        ("fn a() { use_it(SystemTime::now); }", "SystemTime::now"),
        ("fn a() { params![1, (jiff::Timestamp::now())]; }", "Timestamp::now"),
        ("fn a() { run(\"SELECT unixepoch()\"); }", "unixepoch("),
        ("impl A { fn a() { AgentId::random(); } }", "AgentId::random"),
    ] {
        assert_eq!(found(text), [input], "{text}");
    }
    for text in [
        "fn a() { Instant::now(); }",
        "#[cfg(test)] mod tests { fn a() { AgentId::random(); } }",
        "impl A { #[cfg(test)] fn a() { Uuid::new_v4(); } }",
    ] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}

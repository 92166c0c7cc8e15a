//! Explains imports of WASI preview 1 in a core module. The C library adds them, but the sandbox provides none of them. Threads
//! need no import: the library's thread functions exist, but only return an error.

use std::path::Path;

use wasmparser::{KnownCustom, Name, Parser, Payload};

use crate::compile::c_places_of;

/// A service of an operating system.
struct Service {
    /// Prefixes of import names that only this service needs.
    imports: &'static [&'static str],
    /// Functions of the C library that use the service.
    functions: &'static [&'static str],
    does: &'static str,
    instead: &'static str,
}

/// The services, most specific first: for example, a function that opens a file also needs imports of other services.
const SERVICES: &[Service] = &[
    Service {
        imports: &["path_", "fd_readdir", "fd_prestat"],
        functions: &["fopen", "open", "freopen", "opendir", "stat", "remove", "rename", "mkdir", "unlink", "access"],
        does: "opens a file",
        instead: "For files of the workspace use workspace-read and workspace-write (in C patchbay_read and patchbay_write), for files \
                  beside SKILL.md skill-files (in C patchbay_read_skill_file)",
    },
    Service {
        imports: &["sock_"],
        functions: &["socket", "connect", "accept", "recv", "send"],
        does: "uses the network",
        instead: "Use http (in C patchbay_http)",
    },
    Service {
        imports: &["poll_oneoff"],
        functions: &["sleep", "usleep", "nanosleep", "poll", "select"],
        does: "waits",
        instead: "Nothing else happens while a tool runs, so there is nothing to wait for",
    },
    Service {
        imports: &["clock_"],
        functions: &["time", "clock", "clock_gettime", "gettimeofday", "timespec_get"],
        does: "reads the clock",
        instead: "Let the caller pass the time in the tool's input",
    },
    Service {
        imports: &["random_get"],
        functions: &["getentropy", "arc4random", "arc4random_buf", "arc4random_uniform"],
        does: "uses randomness",
        instead: "Let the caller pass a seed in the tool's input",
    },
    Service {
        imports: &["environ_"],
        functions: &["getenv"],
        does: "reads environment variables",
        instead: "Let the caller pass the value in the tool's input; for secrets use a credential of http",
    },
    Service {
        imports: &["args_"],
        functions: &["main"],
        does: "reads arguments of a command line",
        instead: "A tool's input is its only argument",
    },
    Service {
        imports: &["fd_read"],
        functions: &["scanf", "getchar", "gets", "fgets", "fread", "getline", "read"],
        does: "reads standard input",
        instead: "A tool's input is its only input",
    },
];

/// Returns why a core module cannot become a component; `folder` may contain its C sources. `None` if it imports nothing from WASI
/// preview 1.
pub(crate) fn explained(module: &[u8], folder: &Path) -> Option<String> {
    let imports = imports(module);
    let first = imports.first()?;
    let found = SERVICES.iter().find_map(|service| {
        let import = imports.iter().find(|name| service.imports.iter().any(|start| name.starts_with(start)))?;
        Some((service, import))
    });
    let Some((Service { functions, does, instead, .. }, import)) = found else {
        return Some(format!(
            "it uses a function of the operating system, which the sandbox does not have ({first} of WASI). Remove the call"
        ));
    };
    let used =
        functions.iter().find_map(|name| Some((name, c_places_of(&format!("{name}("), folder).into_iter().next()?)));
    let subject = used.map_or("it".to_owned(), |(name, place)| format!("{place}: {name}()"));
    Some(format!("{subject} {does}, which the sandbox does not have ({import} of WASI). {instead}"))
}

/// Functions that start a thread, each with its name in a module.
const THREADS: &[(&str, &str)] = &[("thrd_create", "thrd_create"), ("pthread_create", "__pthread_create")];

/// Returns a note if the core module's name section lists a function that would start a thread. `folder` may contain its C sources.
pub(crate) fn lost_threads(module: &[u8], folder: &Path) -> Option<String> {
    let names = function_names(module);
    let (function, _) = THREADS.iter().find(|(_, name)| names.contains(name))?;
    let place = c_places_of(&format!("{function}("), folder).into_iter().next();
    let subject = place.map(|place| format!("{place}: ")).unwrap_or_default();
    Some(format!(
        "{subject}{function}() cannot start a thread in the sandbox; it returns an error. To run other tools in \
         parallel, use tool-calls"
    ))
}

/// Returns the function names in a core module's name section; empty for a module without one, or a component.
fn function_names(module: &[u8]) -> Vec<&str> {
    let mut found = Vec::new();
    if Parser::is_component(module) {
        return found;
    }
    for payload in Parser::new(0).parse_all(module).map_while(Result::ok) {
        let Payload::CustomSection(section) = payload else { continue };
        let KnownCustom::Name(subsections) = section.as_known() else { continue };
        for names in subsections.into_iter().map_while(Result::ok) {
            if let Name::Function(functions) = names {
                found.extend(functions.into_iter().map_while(Result::ok).map(|naming| naming.name));
            }
        }
    }
    found
}

/// Returns the names of the imports from WASI preview 1; empty if the bytes are not a core module.
fn imports(module: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    for payload in Parser::new(0).parse_all(module).map_while(Result::ok) {
        if let Payload::ImportSection(section) = payload {
            let imports = section.into_imports().map_while(Result::ok);
            names.extend(
                imports.filter(|import| import.module == "wasi_snapshot_preview1").map(|import| import.name.to_owned()),
            );
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn importing(names: &[&str]) -> Vec<u8> {
        let mut module = wasm_encoder::Module::new();
        let mut types = wasm_encoder::TypeSection::new();
        types.ty().function([], []);
        let mut imports = wasm_encoder::ImportSection::new();
        for name in names {
            imports.import("wasi_snapshot_preview1", name, wasm_encoder::EntityType::Function(0));
        }
        module.section(&types).section(&imports);
        module.finish()
    }

    #[test]
    fn function_that_starts_a_thread_is_named_with_its_place() {
        let named = |names: &[&str]| {
            let mut functions = wasm_encoder::NameMap::new();
            names.iter().zip(0..).for_each(|(name, index)| functions.append(index, name));
            let mut section = wasm_encoder::NameSection::new();
            section.functions(&functions);
            let mut module = wasm_encoder::Module::new();
            module.section(&section);
            module.finish()
        };
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("skill.c"), "void f(void) {\n  pthread_create(&t, 0, run, 0);\n}\n").unwrap();
        assert_eq!(lost_threads(&named(&["main", "pthread_exit"]), folder.path()), None);
        let note = lost_threads(&named(&["main", "__pthread_create"]), folder.path()).unwrap();
        assert!(note.starts_with("skill.c:2: pthread_create() cannot start a thread in the sandbox"), "{note}");
        let note = lost_threads(&named(&["__pthread_create", "thrd_create"]), folder.path()).unwrap();
        assert!(note.starts_with("thrd_create() cannot start a thread in the sandbox"), "{note}");
    }

    #[test]
    fn most_telling_import_is_named_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let of = |names: &[&str]| explained(&importing(names), folder.path());
        assert_eq!(of(&[]), None);
        let words = of(&["fd_read", "clock_time_get"]).unwrap();
        assert!(words.starts_with(
            "it reads the clock, which the sandbox does not have (clock_time_get of WASI). Let the caller"
        ));
        assert!(of(&["proc_raise"]).unwrap().ends_with("(proc_raise of WASI). Remove the call"));
        fs::write(folder.path().join("skill.c"), "// fopen(\nvoid f(void) {\n  fopen(\"a\", \"r\");\n}\n").unwrap();
        let words = of(&["fd_fdstat_set_flags", "path_open"]).unwrap();
        assert!(words.starts_with("skill.c:3: fopen() opens a file, which"), "{words}");
    }
}

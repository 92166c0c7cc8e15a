//! Keeps compiled functions from one compilation to the next. A plugin in a language with a runtime contains a few megabytes of
//! engine code. A change in its sources only changes data, and nearly every function is already compiled.
//!
//! The child process that compiles reads the known functions from its input, and writes the new set after the artefact. Between two
//! compilations, the set is one file, which is checked like an artefact: it is machine code that only this host may have written.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use parking_lot::Mutex;
use patchbay_core::Digest;
use wasmtime::CacheStore;

use crate::{Artefacts, Failure, Limits, artefacts::precompiled, component::invalid, config};

/// Maximum number of bytes of compiled functions that are kept. Python's runtime needs 45 MB, QuickJS 8 MB.
const KEPT_BYTES: usize = 64 << 20;
/// Bytes of a key, the SHA-256 of a function before its compilation.
const KEY: usize = 32;

impl Artefacts {
    /// Compiles in a child process, like [`Artefacts::compile`], with the functions of earlier
    /// compilations if the compiler keeps them.
    ///
    /// # Errors
    /// [`Failure::InvalidComponent`], [`Failure::Compile`], [`Failure::Unavailable`].
    pub(crate) async fn compile_changed(
        &self,
        bytes: &[u8],
        fingerprint: &str,
        limits: &Limits,
    ) -> Result<Vec<u8>, Failure> {
        if !self.compiler.keeps_functions {
            return self.compile(bytes, limits).await;
        }
        // No component has this digest, and the garbage collection deletes the file like any artefact.
        let name = Digest::of(b"compiled functions");
        let expected = self.expected(&name, fingerprint).await;
        let known = expected.and_then(|expected| self.read(&name, fingerprint, &expected)).unwrap_or_default();
        let output = self.compile(&framed(&known, bytes), limits).await?;
        let cut = || Failure::Unavailable("the compiler's output is truncated".to_owned());
        let (artefact, functions) = unframed(&output).ok_or_else(cut)?;
        if !functions.is_empty() {
            self.keep(name, fingerprint, functions).await;
        }
        Ok(artefact.to_vec())
    }
}

/// Compiles the component that follows the known functions in `input`. Runs in the child process, and returns the result in the
/// format that the host reads.
///
/// # Errors
/// [`Failure::InvalidComponent`], or [`Failure::Unavailable`] if no engine is running.
pub fn precompile_with_functions(input: &[u8]) -> Result<Vec<u8>, Failure> {
    let cut = || Failure::Unavailable("the compiler's input is truncated".to_owned());
    let (known, component) = unframed(input).ok_or_else(cut)?;
    let functions = Arc::new(CompiledFunctions::read(known.to_vec()));
    let mut config = config(&Limits::default(), false);
    config.enable_incremental_compilation(Arc::clone(&functions) as _).map_err(invalid)?;
    let artefact = precompiled(component, &config)?;
    Ok(framed(&artefact, &functions.written(KEPT_BYTES)))
}

/// Returns the length of `first`, then `first`, then `second`.
fn framed(first: &[u8], second: &[u8]) -> Vec<u8> {
    [&(first.len() as u64).to_le_bytes(), first, second].concat()
}

fn unframed(framed: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = framed.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}

/// The functions of earlier compilations and of this one.
#[derive(Debug)]
struct CompiledFunctions {
    bytes: Vec<u8>,
    /// Where in `bytes` each function is, by key.
    known: BTreeMap<[u8; KEY], Range<usize>>,
    used: Mutex<BTreeSet<[u8; KEY]>>,
    new: Mutex<BTreeMap<[u8; KEY], Vec<u8>>>,
}

impl CompiledFunctions {
    /// Reads functions, each stored as a key, a length and the code.
    fn read(bytes: Vec<u8>) -> Self {
        let mut known = BTreeMap::new();
        let mut rest = &bytes[..];
        while let Some((key, (function, after))) =
            rest.split_first_chunk::<KEY>().and_then(|(key, rest)| Some((*key, unframed(rest)?)))
        {
            let end = bytes.len() - after.len();
            known.insert(key, end - function.len()..end);
            rest = after;
        }
        Self { bytes, known, used: Mutex::default(), new: Mutex::default() }
    }

    /// Returns at most `most` bytes of functions: new functions first, then used ones, then others. Empty if no function is new.
    fn written(&self, most: usize) -> Vec<u8> {
        let (new, used) = (self.new.lock(), self.used.lock());
        if new.is_empty() {
            return Vec::new();
        }
        let of = |key: &[u8; KEY]| self.known.get(key).map(|place| (*key, &self.bytes[place.clone()]));
        let functions = new.iter().map(|(key, function)| (*key, &**function));
        let functions = functions.chain(used.iter().filter_map(of));
        let functions = functions.chain(self.known.keys().filter(|key| !used.contains(*key)).filter_map(of));
        let mut written = Vec::new();
        for (key, function) in functions {
            let entry = [&key[..], &framed(function, &[])].concat();
            if written.len() + entry.len() > most {
                break;
            }
            written.extend(entry);
        }
        written
    }
}

impl CacheStore for CompiledFunctions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let key = key.try_into().ok()?;
        let function = &self.bytes[self.known.get(&key)?.clone()];
        self.used.lock().insert(key);
        Some(function.into())
    }

    fn insert(&self, key: &[u8], function: Vec<u8>) -> bool {
        let Ok(key) = key.try_into() else { return false };
        self.new.lock().insert(key, function);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component with two functions and a string.
    fn component(text: &str, number: u32) -> Vec<u8> {
        let module = format!(
            r#"(component (core module (memory 1) (data (i32.const 0) "{text}")
                (func (export "a") (param i32) (result i32) (i32.load (local.get 0)))
                (func (export "b") (result i32) (i32.const {number}))))"#
        );
        wat::parse_str(module).unwrap()
    }

    /// Returns the artefact and the kept functions.
    fn compiled(known: &[u8], component: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let output = precompile_with_functions(&framed(known, component)).unwrap();
        let (artefact, functions) = unframed(&output).unwrap();
        (artefact.to_vec(), functions.to_vec())
    }

    #[test]
    fn known_functions_make_the_same_artefact() {
        let (first, functions) = compiled(&[], &component("one", 1));
        assert_eq!(first, crate::precompile(&component("one", 1)).unwrap());
        let kept = CompiledFunctions::read(functions.clone()).known.len();
        assert!(kept >= 2, "{kept}");
        // Unfortunately the engine sometimes gives a trampoline a different key, so not every function is found again.
        let new = |functions: Vec<u8>| CompiledFunctions::read(functions).known.len().saturating_sub(kept);
        // Only data has changed, and it is not part of the functions.
        let (second, unchanged) = compiled(&functions, &component("two", 1));
        assert_eq!(second, crate::precompile(&component("two", 1)).unwrap());
        assert!(first != second && new(unchanged) < kept);
        let (third, more) = compiled(&functions, &component("two", 2));
        assert_eq!(third, crate::precompile(&component("two", 2)).unwrap());
        assert!((1..=kept).contains(&new(more)));
    }

    #[test]
    fn damaged_functions_are_compiled_again() {
        let (expected, mut functions) = compiled(&[], &component("one", 1));
        let end = functions.len();
        // Change the version of the code generator, which is at the beginning of each function.
        for place in CompiledFunctions::read(functions.clone()).known.into_values() {
            functions[place.start + 1] ^= 1;
        }
        assert_eq!(compiled(&functions, &component("one", 1)).0, expected);
        assert_eq!(compiled(&functions[..end / 2], &component("one", 1)).0, expected);
        assert!(precompile_with_functions(&[1; 9]).is_err());
    }

    #[test]
    fn new_and_used_functions_are_kept_first() {
        let entry = |key: u8| [&[key; KEY][..], &framed(&[key; 10], &[])].concat();
        let functions = CompiledFunctions::read([entry(1), entry(2), entry(3)].concat());
        assert!(functions.get(&[3; KEY]).is_some() && functions.get(&[4; KEY]).is_none());
        assert!(functions.written(1_000).is_empty());
        assert!(functions.insert(&[4; KEY], vec![4; 10]));
        assert_eq!(functions.written(1_000), [entry(4), entry(3), entry(1), entry(2)].concat());
        assert_eq!(functions.written(entry(4).len() * 2 + 1), [entry(4), entry(3)].concat());
    }
}

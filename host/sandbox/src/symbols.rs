//! Translates the place where a component trapped into a file and line of its source.
//!
//! `patchbay plugin build` strips debug information from components, and keeps the unstripped core module, or the
//! source map of bundled JavaScript, in the cache folder, under the digest of the component. Components built elsewhere
//! have no entry there, so their traps cannot be located.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use addr2line::{
    Context,
    gimli::{Dwarf, EndianSlice, LittleEndian, SectionId},
};
use patchbay_core::{Digest, text};
use wasmparser::{Parser, Payload, TypeRef};
use wasmtime::WasmBacktrace;

use crate::BundleMap;

/// Maximum number of files in the folder. A new file replaces the oldest one, because authors only need the newest few.
const KEPT: usize = 64;
/// The largest file that is read, in bytes. The debug information of a large Rust module takes tens of megabytes.
const MODULE_BYTES: u64 = 128 << 20;
/// The most source locations that are shown for one trap.
const PLACES: usize = 5;

/// Debug information that maps a component to its source.
#[derive(Clone, Debug)]
pub enum DebugInfo {
    /// The core module of the component, with DWARF.
    Module(Vec<u8>),
    /// The source map of the bundle inside the component.
    SourceMap(Vec<u8>),
}

/// A folder with debug information of components.
#[derive(Clone, Debug)]
pub struct Symbols {
    folder: PathBuf,
}

impl Symbols {
    /// Uses `folder`, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the folder that was passed to `new`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stores the debug information of a component.
    ///
    /// # Errors
    /// If a file cannot be written. Traps of the component then cannot be located.
    pub fn keep(&self, component: &Digest, info: &DebugInfo) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        let (path, bytes) = match info {
            DebugInfo::Module(bytes) => (self.path(component), bytes),
            DebugInfo::SourceMap(bytes) => (self.map_path(component), bytes),
        };
        io::Write::write_all(&mut file, bytes)?;
        file.persist(path).map_err(|error| error.error)?;
        self.remove_oldest();
        Ok(())
    }

    fn map_path(&self, component: &Digest) -> PathBuf {
        self.path(component).with_extension("map")
    }

    /// Returns the lines that a component printed, with positions in the author's sources.
    pub fn translated(&self, component: &Digest, printed: Vec<String>) -> Vec<String> {
        let Some(map) = read(&self.map_path(component)).and_then(|bytes| BundleMap::read(&bytes)) else {
            return printed;
        };
        map.translate_all(&printed)
    }

    /// Removes all but the newest files. Errors are ignored, because another process may remove the same files, and an extra file
    /// does no harm.
    fn remove_oldest(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut modules: Vec<(SystemTime, PathBuf)> =
            entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
        modules.sort();
        for (_, path) in modules.iter().rev().skip(KEPT) {
            let _ = fs::remove_file(path);
        }
    }

    fn path(&self, component: &Digest) -> PathBuf {
        self.folder.join(component.to_hex())
    }

    /// Returns the places of a trap in the author's source, the innermost first, such as `src/lib.rs:12 in greet::hello`. Empty
    /// without debug information. Places in a language's library, and in the SDK, are left out.
    pub(crate) fn places(&self, component: &Digest, backtrace: &WasmBacktrace) -> Vec<String> {
        let frames = backtrace.frames().iter().map(|frame| (frame.func_index(), frame.func_offset()));
        self.places_of(component, frames)
    }

    fn places_of(&self, component: &Digest, frames: impl Iterator<Item = (u32, Option<usize>)>) -> Vec<String> {
        let Some(module) = read(&self.path(component)) else { return Vec::new() };
        let Some(debug) = DebugModule::read(&module) else { return Vec::new() };
        let mut places = Vec::new();
        for (function, offset) in frames {
            debug.add_places(function, offset, &mut places);
        }
        places.truncate(PLACES);
        places
    }
}

/// Reads a file of debug information. `None` if the file is missing or too large.
fn read(path: &Path) -> Option<Vec<u8>> {
    let is_small = fs::metadata(path).is_ok_and(|found| found.len() <= MODULE_BYTES);
    is_small.then(|| fs::read(path).ok()).flatten()
}

/// A parsed core module with DWARF.
struct DebugModule<'a> {
    /// Number of imported functions, which come first in the index space.
    imported: u32,
    /// Start and first instruction of each function's body, relative to the code section, as DWARF counts.
    bodies: Vec<(u64, u64)>,
    context: Context<EndianSlice<'a, LittleEndian>>,
}

impl<'a> DebugModule<'a> {
    /// Parses a module. `None` if the bytes are not a module, or contain no debug information.
    fn read(module: &'a [u8]) -> Option<Self> {
        let (mut imported, mut code, mut bodies, mut sections) = (0, 0, Vec::new(), Vec::new());
        for payload in Parser::new(0).parse_all(module) {
            match payload.ok()? {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        imported += u32::from(matches!(import.ok()?.ty, TypeRef::Func(_) | TypeRef::FuncExact(_)));
                    }
                }
                Payload::CodeSectionStart { range, .. } => code = range.start,
                Payload::CodeSectionEntry(body) => {
                    let first = body.get_operators_reader().ok()?.original_position();
                    bodies.push(((body.range().start - code) as u64, (first - code) as u64));
                }
                Payload::CustomSection(section) => sections.push((section.name(), section.data())),
                _ => {}
            }
        }
        let section = |id: SectionId| {
            let found = sections.iter().find(|(name, _)| *name == id.name());
            Ok::<_, ()>(EndianSlice::new(found.map_or(&[][..], |(_, data)| data), LittleEndian))
        };
        if section(SectionId::DebugLine).is_ok_and(|line| line.is_empty()) {
            return None;
        }
        let context = Context::from_dwarf(Dwarf::load(section).ok()?).ok()?;
        Some(Self { imported, bodies, context })
    }

    /// Adds the places of one frame, which are several if functions were inlined. In code that the engine itself has added, for
    /// example to count fuel, the offset is unknown, and the function's first line is used instead.
    fn add_places(&self, function: u32, offset: Option<usize>, places: &mut Vec<String>) {
        let body = function.checked_sub(self.imported).and_then(|index| self.bodies.get(index as usize));
        let Some((start, first)) = body else { return };
        let is_found = offset.is_some_and(|offset| self.add_places_at(start + offset as u64, places));
        if !is_found {
            self.add_places_at(*first, places);
        }
    }

    /// Adds the places of an address. Returns whether it has a source line, because code that the compiler added has none.
    fn add_places_at(&self, address: u64, places: &mut Vec<String>) -> bool {
        let mut is_found = false;
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else { return false };
        while let Ok(Some(frame)) = frames.next() {
            let Some((file, line)) =
                frame.location.as_ref().and_then(|location| Some((location.file?, location.line?)))
            else {
                continue;
            };
            is_found = true;
            let file = file.strip_prefix("./").unwrap_or(file);
            if !is_authors(file) {
                continue;
            }
            let name = frame.function.as_ref().and_then(|function| Some(function.demangle().ok()?.into_owned()));
            let place = match name {
                Some(name) => format!("{}:{line} in {}", text::excerpt(file, 160), text::excerpt(&name, 80)),
                None => format!("{}:{line}", text::excerpt(file, 160)),
            };
            if places.last() != Some(&place) {
                places.push(place);
            }
        }
        is_found
    }
}

/// Returns false for sources of a language's library, of dependencies, of the SDK and of generated bindings. `plugin build` makes
/// paths relative to the plugin's folder.
fn is_authors(file: &str) -> bool {
    !Path::new(file).is_absolute() && !file.starts_with("sdk/")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_the_newest_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let symbols = Symbols::new(folder.path().join("debug"));
        let digest = |number: usize| Digest::of(&number.to_le_bytes());
        for number in 0..KEPT {
            symbols.keep(&digest(number), &DebugInfo::Module(Vec::new())).unwrap();
            let file = fs::File::options().append(true).open(symbols.path(&digest(number))).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(number as u64)).unwrap();
        }
        symbols.keep(&digest(KEPT), &DebugInfo::SourceMap(Vec::new())).unwrap();
        assert_eq!(fs::read_dir(symbols.folder()).unwrap().count(), KEPT);
        assert!(!symbols.path(&digest(0)).exists() && symbols.path(&digest(1)).exists());
        assert!(symbols.map_path(&digest(KEPT)).exists());
    }

    #[test]
    fn damaged_debug_information_has_no_places() {
        let folder = tempfile::tempdir().unwrap();
        let symbols = Symbols::new(folder.path().to_owned());
        let digest = Digest::of(b"x");
        for module in [&b""[..], b"\0asm\x01\0\0\0", b"no module", b"\0asm\x01\0\0\0\x0a\xff\xff\xff\xff\x0f"] {
            symbols.keep(&digest, &DebugInfo::Module(module.to_vec())).unwrap();
            assert!(symbols.places_of(&digest, [(0, Some(1)), (u32::MAX, None)].into_iter()).is_empty());
        }
    }
}

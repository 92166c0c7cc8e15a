//! Translates stack traces of bundled JavaScript to the author's files.

use sourcemap::SourceMap;

/// Name of the bundle in stack traces. `plugin build` gives it this name.
pub const BUNDLE: &str = "bundle.js";

/// The source map of a bundle.
pub struct BundleMap(SourceMap);

impl BundleMap {
    /// Parses a source map. `None` if the bytes are not a source map.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        SourceMap::from_slice(bytes).ok().map(Self)
    }

    /// Returns a line that the runtime printed, with positions in the author's files instead of positions in the bundle. `None` for
    /// a stack frame inside the SDK or the runtime, which would not help the author.
    pub fn translate(&self, line: &str) -> Option<String> {
        let is_frame = line.trim_start().starts_with("at ");
        let Some((start, end, at)) = place(line) else {
            return (!is_frame || !line.contains("(native)")).then(|| line.to_owned());
        };
        // Lines and columns are counted from 1 in a trace, and from 0 in the map.
        let token = at.0.checked_sub(1).and_then(|row| self.0.lookup_token(row, at.1.saturating_sub(1)));
        let Some(source) = token.and_then(|token| token.get_source()) else { return Some(line.to_owned()) };
        if is_frame && is_sdk(source) {
            return None;
        }
        let number = token.map_or(0, |token| token.get_src_line() + 1);
        Some(format!("{}{source}:{number}{}", &line[..start], &line[end..]))
    }

    /// Translates the lines of a trace.
    pub fn translate_all(&self, lines: &[String]) -> Vec<String> {
        lines.iter().filter_map(|line| self.translate(line)).collect()
    }
}

fn is_sdk(source: &str) -> bool {
    source.starts_with("sdk/") || source.contains("node_modules/patchbay-sdk/")
}

/// Finds `/bundle.js:LINE:COLUMN` in a line. Returns its start and end in the line, the line number and the column.
fn place(line: &str) -> Option<(usize, usize, (u32, u32))> {
    let name = line.find(BUNDLE)?;
    let start = if line[..name].ends_with('/') { name - 1 } else { name };
    let rest = line[name + BUNDLE.len()..].strip_prefix(':')?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(rest.len());
    let (row, column) = rest[..end].split_once(':')?;
    Some((start, line.len() - rest.len() + end, (row.parse().ok()?, column.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line 1 of the bundle is line 1 of the SDK's trap.js, line 2 is line 4 of skill.js.
    const MAP: &[u8] = br#"{"version":3,"sources":["sdk/trap.js","skill.js"],"names":[],"mappings":"AAAA;ACGA"}"#;

    #[test]
    fn places_become_those_of_the_author() {
        let map = BundleMap::read(MAP).unwrap();
        for (line, expected) in [
            ("    at run (/bundle.js:2:3)", Some("    at run (skill.js:4)")),
            ("    at fail (/bundle.js:1:3)", None),
            ("    at map (native)", None),
            ("TypeError: bundle.js:1 is text", Some("TypeError: bundle.js:1 is text")),
            ("a word", Some("a word")),
            ("/bundle.js:99999999999:1", Some("/bundle.js:99999999999:1")),
            ("/bundle.js:0:0 x", Some("/bundle.js:0:0 x")),
        ] {
            assert_eq!(map.translate(line).as_deref(), expected, "{line}");
        }
        assert!(BundleMap::read(b"no map").is_none());
    }
}

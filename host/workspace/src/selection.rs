//! Decides which paths a walk selects: those that match one of several globs and are not excluded.

use std::borrow::Cow;

use crate::{error::FileError, glob::Glob, limits, work::WorkBudget};

/// The globs of a walk or a search.
pub(crate) struct Selection {
    /// Globs of included paths; empty includes every path.
    included: Vec<Glob>,
    /// Matching paths, and everything below them, are left out.
    excluded: Vec<Glob>,
    /// True if the globs are in lower case and paths are compared in lower case.
    ignores_case: bool,
}

impl Selection {
    /// Selects the paths that match `glob`.
    pub(crate) fn of(glob: Glob) -> Self {
        Self { included: vec![glob], excluded: Vec::new(), ignores_case: false }
    }

    /// Parses the globs of a search. A glob that begins with `!` excludes paths.
    pub(crate) fn parse(globs: &[String], ignores_case: bool) -> Result<Self, FileError> {
        if globs.len() > limits::SEARCH_GLOBS {
            return Err(FileError::TooManyGlobs { count: globs.len() });
        }
        let mut selection = Self { included: Vec::new(), excluded: Vec::new(), ignores_case };
        for glob in globs {
            let glob = selection.comparable(glob);
            let (globs, glob) = match glob.strip_prefix('!') {
                Some(excluded) => (&mut selection.excluded, excluded),
                None => (&mut selection.included, &*glob),
            };
            globs.push(Glob::parse(glob)?);
        }
        Ok(selection)
    }

    /// Returns true if `path` is selected. The caller has checked that no directory above it is excluded.
    pub(crate) fn matches(&self, path: &str, work: &mut WorkBudget) -> Result<bool, FileError> {
        let path = self.comparable(path);
        Ok((self.included.is_empty() || any(&self.included, |glob| glob.matches(&path, work))?)
            && !any(&self.excluded, |glob| glob.matches(&path, work))?)
    }

    /// Returns true if anything below the directory `dir` can be selected.
    pub(crate) fn reaches_below(&self, dir: &str, work: &mut WorkBudget) -> Result<bool, FileError> {
        let dir = self.comparable(dir);
        Ok((self.included.is_empty() || any(&self.included, |glob| glob.reaches_below(&dir, work))?)
            && !any(&self.excluded, |glob| glob.matches(&dir, work))?)
    }

    fn comparable<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.ignores_case { text.to_lowercase().into() } else { text.into() }
    }
}

/// Returns true if `matches` is true for one of the globs.
fn any(globs: &[Glob], mut matches: impl FnMut(&Glob) -> Result<bool, FileError>) -> Result<bool, FileError> {
    for glob in globs {
        if matches(glob)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(globs: &[&str], ignores_case: bool, path: &str) -> bool {
        let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
        let selection = Selection::parse(&globs, ignores_case).unwrap();
        let mut work = WorkBudget::default();
        let above = path.match_indices('/').map(|(end, _)| &path[..end]);
        let reached: Vec<&str> = above.collect();
        reached.iter().all(|dir| selection.reaches_below(dir, &mut work).unwrap())
            && selection.matches(path, &mut work).unwrap()
    }

    #[test]
    fn globs_include_and_exclude() {
        for (globs, path, expected) in [
            (&[][..], "a/b", true),
            (&["*.rs", "*.md"], "a.md", true),
            (&["*.rs", "*.md"], "a.toml", false),
            (&["!*.rs"], "a.toml", true),
            (&["!*.rs"], "a.rs", false),
            (&["**/*.rs", "!src/old"], "src/new/a.rs", true),
            (&["**/*.rs", "!src/old"], "src/old/deep/a.rs", false),
            (&["**/*.rs", "!src/old/**"], "src/old/a.rs", false),
            (&["\\!a"], "!a", true),
        ] {
            assert_eq!(selects(globs, false, path), expected, "{globs:?} {path}");
        }
    }

    #[test]
    fn case_is_ignored_on_request() {
        assert!(!selects(&["**/readme*"], false, "docs/README.md"));
        assert!(selects(&["**/readme*"], true, "docs/README.md"));
        assert!(selects(&["ÉTÉ/[A-C]*"], true, "été/b"));
        assert!(!selects(&["!*.MD"], true, "a.md"));
    }

    #[test]
    fn invalid_globs_are_refused() {
        for globs in [vec!["[".to_owned()], vec!["!".to_owned()], vec!["a".to_owned(); limits::SEARCH_GLOBS + 1]] {
            let error = Selection::parse(&globs, false).err().unwrap();
            assert_eq!(error.kind(), "invalid", "{error}");
        }
    }
}

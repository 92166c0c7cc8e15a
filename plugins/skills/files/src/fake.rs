//! A workspace in memory for the tests.

use std::collections::BTreeMap;

use crate::host::{Entry, Error, Files};

/// A workspace whose reads may return fewer bytes than requested, as the host's may.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// The most bytes of one read.
    pub(crate) most: usize,
    /// The kind with which every write fails.
    pub(crate) refused: Option<&'static str>,
    /// The number of reads.
    pub(crate) reads: usize,
}

impl Fake {
    pub(crate) fn with(files: &[(&str, &[u8])]) -> Self {
        let files = files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect();
        Self { files, most: usize::MAX, refused: None, reads: 0 }
    }

    /// Creates a workspace with one file `f`.
    pub(crate) fn one(text: impl AsRef<[u8]>) -> Self {
        Self::with(&[("f", text.as_ref())])
    }

    pub(crate) fn text(&self, path: &str) -> &str {
        str::from_utf8(&self.files[path]).expect("UTF-8")
    }
}

pub(crate) fn error(kind: &str) -> Error {
    Error { kind: kind.to_owned(), message: format!("a fake {kind}") }
}

impl Files for Fake {
    fn read(&mut self, path: &str, offset: u64, max: u32) -> Result<Vec<u8>, Error> {
        self.reads += 1;
        let bytes = self.files.get(path).ok_or_else(|| error("not-found"))?;
        let start = bytes.len().min(offset as usize);
        let end = bytes.len().min(start + self.most.min(max as usize));
        Ok(bytes[start..end].to_vec())
    }

    /// `glob` is `**/*` for all files, or a prefix of paths.
    fn walk(&mut self, glob: &str, after: Option<&str>, limit: u32) -> Result<Vec<Entry>, Error> {
        let prefix = if glob == "**/*" { "" } else { glob };
        let files = self.files.iter().filter(|(path, _)| path.starts_with(prefix));
        let files = files.filter(|(path, _)| after.is_none_or(|after| path.as_str() > after));
        let entry = |(path, bytes): (&String, &Vec<u8>)| Entry {
            path: path.clone(),
            is_directory: false,
            size: bytes.len() as u64,
        };
        Ok(files.take(limit as usize).map(entry).collect())
    }

    fn write(&mut self, path: &str, contents: &[u8]) -> Result<(), Error> {
        if let Some(kind) = self.refused {
            return Err(error(kind));
        }
        self.files.insert(path.to_owned(), contents.to_vec());
        Ok(())
    }
}

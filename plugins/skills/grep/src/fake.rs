//! A workspace in memory for the tests.

use std::collections::BTreeMap;

use crate::host::{Entry, Error, Files};

/// Supports the globs `**/*`, `**/*.EXT`, `**/NAME`, `FOLDER/**/*`, and paths.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Files whose reads fail with a kind of error.
    pub(crate) faults: BTreeMap<String, &'static str>,
    /// The kind of error with which every call fails.
    pub(crate) refused: Option<&'static str>,
    /// The number of calls to the host.
    pub(crate) calls: usize,
    /// The number of bytes that were read.
    pub(crate) bytes: usize,
}

impl Fake {
    pub(crate) fn with<T: AsRef<[u8]>>(files: &[(&str, T)]) -> Self {
        let files = files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.as_ref().to_vec())).collect();
        Self { files, ..Self::default() }
    }

    fn call(&mut self, path: &str) -> Result<(), Error> {
        self.calls += 1;
        match self.refused.or(self.faults.get(path).copied()) {
            Some(kind) => Err(Error { kind: kind.to_owned(), message: format!("a fake {kind}") }),
            None => Ok(()),
        }
    }
}

fn matches(glob: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    match (glob.strip_prefix("**/"), glob.strip_suffix("/**/*")) {
        (Some("*"), _) => true,
        (Some(file), _) => file.strip_prefix('*').map_or(name == file, |end| name.ends_with(end)),
        (_, Some(folder)) => path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
        _ => path == glob,
    }
}

impl Files for Fake {
    fn read(&mut self, path: &str, offset: u64, max: u32) -> Result<Vec<u8>, Error> {
        self.call(path)?;
        let bytes = &self.files[path];
        let start = bytes.len().min(offset as usize);
        let end = bytes.len().min(start + max as usize);
        self.bytes += end - start;
        Ok(bytes[start..end].to_vec())
    }

    fn walk(&mut self, glob: &str, after: Option<&str>, limit: u32) -> Result<Vec<Entry>, Error> {
        self.call("")?;
        let files = self.files.iter().filter(|(path, _)| matches(glob, path));
        let files = files.filter(|(path, _)| after.is_none_or(|after| path.as_str() > after));
        let entry = |(path, bytes): (&String, &Vec<u8>)| Entry {
            path: path.trim_end_matches('/').to_owned(),
            is_directory: path.ends_with('/'),
            size: bytes.len() as u64,
        };
        Ok(files.take(limit as usize).map(entry).collect())
    }
}

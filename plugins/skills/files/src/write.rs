//! The tool `write`: creates or replaces a whole file.

use patchbay_sdk::{Failure, Result, workspace};

use crate::{
    contents::MAX_FILE,
    words::{count, shown},
};

pub(crate) fn write(path: &str, text: &str) -> Result<String> {
    if text.len() > MAX_FILE {
        let bytes = text.len();
        return Err(Failure::new(
            "too-large",
            format!("a text of {bytes} bytes is over the limit of {MAX_FILE}; write it in several files"),
        ));
    }
    // The result only changes a word of the answer, so a file that cannot be read may still be written.
    let verb = match workspace::read(path, 0, 1) {
        Ok(_) => "Replaced",
        Err(_) => "Created",
    };
    workspace::write(path, text.as_bytes())?;
    Ok(format!("{verb} '{}': {}, {}.", shown(path), count(text.lines().count(), "line"), count(text.len(), "byte")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::testing::{Host, Reaction};

    #[test]
    fn file_is_created_or_replaced() {
        let host = Host::new();
        let write = |text| host.run(|| write("a/b", text)).map_err(|failure| failure.to_string());
        assert_eq!(write("x\ny"), Ok("Created 'a/b': 2 lines, 3 bytes.".to_owned()));
        assert_eq!(write("\u{e9}"), Ok("Replaced 'a/b': 1 line, 2 bytes.".to_owned()));
        assert_eq!(write(""), Ok("Replaced 'a/b': 0 lines, 0 bytes.".to_owned()));
        assert_eq!(host.file("a/b"), Some(Vec::new()));
    }

    #[test]
    fn too_long_or_denied_contents_are_not_written() {
        let host = Host::new();
        let failure = host.run(|| write("f", &"x".repeat(MAX_FILE + 1))).expect_err("too long");
        assert_eq!(failure.kind(), "too-large");
        assert!(failure.message().starts_with("a text of 2097153 bytes is over the limit of 2097152"), "{failure}");
        let denying = host.on_call(|call| match call.function {
            "workspace.write" => Reaction::Fail("denied"),
            _ => Reaction::Proceed,
        });
        assert_eq!(denying.run(|| write("f", "x")).expect_err("denied").kind(), "denied");
        assert_eq!(host.file("f"), None);
        assert!(host.run(|| write("f", &"x".repeat(MAX_FILE))).is_ok());
    }
}

//! The tools `rename` and `delete`.

use std::ops::ControlFlow;

use patchbay_sdk::{Failure, Result, workspace};

use crate::{
    contents::{MAX_MOVED, all_bytes, exists},
    words::{count, shown},
};

pub(crate) fn delete(path: &str) -> Result<String> {
    workspace::delete(path)?;
    Ok(format!("Deleted '{}'.", shown(path)))
}

/// Moves a file: writes it at its new path, then deletes it at the old one. The user is asked once for both. If the deletion fails,
/// the new file is deleted again.
pub(crate) fn rename(from: &str, to: &str) -> Result<String> {
    if from == to {
        return Err(Failure::invalid("'from' and 'to' are the same; nothing would change"));
    }
    let mut bytes = Vec::new();
    all_bytes(from, |range| {
        bytes.extend_from_slice(range);
        if bytes.len() > MAX_MOVED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let (shown_from, shown_to) = (shown(from), shown(to));
    if bytes.len() > MAX_MOVED {
        let message = format!("'{shown_from}' has more than the {MAX_MOVED} bytes that can be moved");
        return Err(Failure::new("too-large", message));
    }
    if exists(to)? {
        return Err(Failure::new("exists", format!("'{shown_to}' already exists; nothing was moved")));
    }
    let change = |path: &str, contents| workspace::Change { path: path.to_owned(), contents, extra: Vec::new() };
    workspace::declare(&[change(to, Some(bytes.clone())), change(from, None)])?;
    workspace::write(to, &bytes)?;
    // If another process has deleted the old file by now, the new file is the only copy.
    if let Err(error) = workspace::delete(from)
        && error.kind != "not-found"
    {
        return match workspace::delete(to) {
            Ok(()) => {
                let message = format!("'{shown_from}' cannot be deleted: {}; nothing was moved", error.message);
                Err(Failure::new(error.kind, message))
            }
            Err(left) => {
                let message = format!(
                    "Not moved: '{shown_from}' cannot be deleted: {}. Its copy '{shown_to}' remains, because it \
                     cannot be deleted either: {}",
                    error.message, left.message
                );
                // If a call fails after a denial, the host shows only the denial.
                let is_denied = error.kind == "denied" || left.kind == "denied";
                if is_denied { Ok(message) } else { Err(Failure::new(error.kind, message)) }
            }
        };
    }
    let size = count(bytes.len(), "byte");
    Ok(format!("Moved '{shown_from}' to '{shown_to}': {size}. If it was executable, it no longer is."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::testing::{Host, Reaction};

    fn denying(function: &'static str) -> Host {
        Host::new().with_file("a", "x").on_call(move |call| match call.function == function {
            true => Reaction::Fail("denied"),
            false => Reaction::Proceed,
        })
    }

    #[test]
    fn file_is_moved_with_its_bytes() {
        let host = Host::new().with_file("a", b"\0\xffx");
        let moved = host.run(|| rename("a", "b/c")).map_err(|failure| failure.to_string());
        assert_eq!(moved.as_deref(), Ok("Moved 'a' to 'b/c': 3 bytes. If it was executable, it no longer is."));
        assert_eq!((host.file("a"), host.file("b/c")), (None, Some(b"\0\xffx".to_vec())));
    }

    #[test]
    fn existing_file_is_not_replaced_by_a_move() {
        let host = Host::new().with_file("a", "1").with_file("b", "2");
        let failure = host.run(|| rename("a", "b")).unwrap_err();
        assert_eq!((failure.kind(), failure.message()), ("exists", "'b' already exists; nothing was moved"));
        assert_eq!((host.file("a"), host.file("b")), (Some(b"1".to_vec()), Some(b"2".to_vec())));
        assert!(host.run(|| rename("a", "a")).unwrap_err().message().contains("are the same"));
        assert_eq!(host.run(|| rename("none", "c")).unwrap_err().kind(), "not-found");
    }

    #[test]
    fn denied_deletion_leaves_all_as_it_was() {
        let host = denying("workspace.declare");
        assert_eq!(host.run(|| rename("a", "b")).unwrap_err().kind(), "denied");
        assert_eq!((host.file("a"), host.file("b")), (Some(b"x".to_vec()), None));
        let host = denying("workspace.delete");
        assert_eq!(host.run(|| delete("a")).unwrap_err().kind(), "denied");
        assert_eq!(host.file("a"), Some(b"x".to_vec()));
    }

    #[test]
    fn copy_is_deleted_if_the_file_cannot_be() {
        let refusing = |paths: &'static [&str]| {
            Host::new().with_file("a", "x").on_call(move |call| {
                let refuses = call.function == "workspace.delete" && paths.contains(&call.target.as_str());
                if refuses { Reaction::Fail("denied") } else { Reaction::Proceed }
            })
        };
        let host = refusing(&["a"]);
        let failure = host.run(|| rename("a", "b")).unwrap_err();
        let words = "'a' cannot be deleted: simulated denied; nothing was moved";
        assert_eq!((failure.kind(), failure.message()), ("denied", words));
        assert_eq!((host.file("a"), host.file("b")), (Some(b"x".to_vec()), None));
        let host = refusing(&["a", "b"]);
        let told = host.run(|| rename("a", "b")).map_err(|failure| failure.to_string());
        let words = "Not moved: 'a' cannot be deleted: simulated denied. Its copy 'b' remains, because it cannot be \
            deleted either: simulated denied";
        assert_eq!(told.as_deref(), Ok(words));
    }

    #[test]
    fn copy_that_is_left_is_a_failure_without_a_denial() {
        let host = Host::new().with_file("a", "x").on_call(|call| match (call.function, &*call.target) {
            ("workspace.delete", "a" | "b") => Reaction::Fail("failed"),
            _ => Reaction::Proceed,
        });
        let failure = host.run(|| rename("a", "b")).unwrap_err();
        assert_eq!(failure.kind(), "failed");
        assert!(failure.message().contains("Its copy 'b' remains"), "{failure}");
    }

    #[test]
    fn file_that_is_gone_after_it_was_copied_is_moved() {
        let host = Host::new().with_file("a", "x").on_call(|call| match (call.function, &*call.target) {
            ("workspace.delete", "a") => Reaction::Fail("not-found"),
            _ => Reaction::Proceed,
        });
        let moved = host.run(|| rename("a", "b")).map_err(|failure| failure.to_string());
        assert!(moved.is_ok_and(|moved| moved.starts_with("Moved 'a' to 'b'")));
        assert_eq!(host.file("b"), Some(b"x".to_vec()));
    }

    #[test]
    fn large_file_is_not_moved() {
        let host = Host::new().with_file("a", vec![b'x'; MAX_MOVED + 1]);
        assert_eq!(host.run(|| rename("a", "b")).unwrap_err().kind(), "too-large");
        assert_eq!(host.file("b"), None);
    }

    #[test]
    fn file_is_deleted() {
        let host = Host::new().with_file("a", "x");
        assert_eq!(host.run(|| delete("a")).map_err(|failure| failure.to_string()), Ok("Deleted 'a'.".to_owned()));
        assert_eq!(host.file("a"), None);
        assert_eq!(host.run(|| delete("a")).unwrap_err().kind(), "not-found");
    }
}

//! The commit of a checkout, read from its `.git` without running git. `build.rs` embeds it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the first twelve digits of the commit that is checked out in `root`, and the files that change with it. Returns
/// `None` if `root` is not the top of a checkout.
pub(crate) fn commit(root: &Path) -> Option<(String, Vec<PathBuf>)> {
    let dot_git = root.join(".git");
    // In a worktree, `.git` is a file with the path of its git folder, and branches are in the git folder of the main checkout.
    let git = match fs::read_to_string(&dot_git) {
        Ok(link) => root.join(link.strip_prefix("gitdir:")?.trim()),
        Err(_) => dot_git,
    };
    let common = fs::read_to_string(git.join("commondir")).map_or_else(|_| git.clone(), |path| git.join(path.trim()));
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let commit = match head.strip_prefix("ref:").map(str::trim) {
        None => head,
        Some(branch) => fs::read_to_string(common.join(branch)).ok().or_else(|| packed(&common, branch))?,
    };
    let digits = commit.trim().get(..12).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    // Every commit appends to `logs/HEAD`. `packed-refs` may stay unchanged, because a commit can create a branch file instead.
    let changing = ["HEAD", "logs/HEAD"].map(|name| git.join(name)).into_iter().filter(|file| file.exists());
    Some((digits.to_owned(), changing.collect()))
}

/// Returns the line of `branch` in `packed-refs`, which begins with its commit: `COMMIT BRANCH`.
fn packed(common: &Path, branch: &str) -> Option<String> {
    let packed = fs::read_to_string(common.join("packed-refs")).ok()?;
    let line = packed.lines().find(|line| line.split(' ').nth(1) == Some(branch))?;
    Some(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn commits_are_found_in_every_form_of_checkout() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let found = |folder: &str| commit(&root.path().join(folder)).map(|(commit, _)| commit);
        assert_eq!(found("."), None, "a source archive");
        write("detached/.git/HEAD", &format!("{COMMIT}\n"));
        write("branch/.git/HEAD", "ref: refs/heads/a/b\n");
        write("branch/.git/refs/heads/a/b", &format!("{COMMIT}\n"));
        write("packed/.git/HEAD", "ref: refs/heads/main\n");
        write("packed/.git/packed-refs", &format!("# pack-refs\n{}\n{COMMIT} refs/heads/main\n", "f".repeat(40)));
        write("worktree/.git", "gitdir: ../branch/.git/worktrees/w\n");
        write("branch/.git/worktrees/w/HEAD", "ref: refs/heads/a/b\n");
        write("branch/.git/worktrees/w/commondir", "../..\n");
        for folder in ["detached", "branch", "packed", "worktree"] {
            assert_eq!(found(folder).as_deref(), Some(&COMMIT[..12]), "{folder}");
        }
        write("unborn/.git/HEAD", "ref: refs/heads/main\n");
        write("odd/.git/HEAD", "what is this");
        assert_eq!((found("unborn"), found("odd")), (None, None));
    }

    #[test]
    fn a_commit_changes_a_watched_file() {
        let root = tempfile::tempdir().unwrap();
        let git = root.path().join(".git");
        fs::create_dir_all(git.join("logs")).unwrap();
        fs::write(git.join("HEAD"), COMMIT).unwrap();
        fs::write(git.join("logs/HEAD"), "").unwrap();
        assert_eq!(commit(root.path()).unwrap().1, [git.join("HEAD"), git.join("logs/HEAD")]);
    }
}

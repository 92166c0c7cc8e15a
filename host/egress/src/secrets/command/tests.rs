//! Tests of key commands: finding the program, running it, its output, and the keys that are kept.

use std::{fs, path::PathBuf};

use proptest::prelude::*;

use super::*;
use crate::{Binding, CredentialError, Origin, SecretLookup, Secrets};

/// The output of commands that fail. It must not occur in any error.
const SENTINEL: &str = "s3ntinel-of-the-command";

/// Writes a script into `folder` and returns the command that runs it.
fn script(folder: &Path, name: &str, text: &str) -> KeyCommand {
    let file = folder.join(name);
    // A separate process writes the file. If this process did, programs that other tests start at the same moment could inherit the
    // open file, and a file that is open for writing cannot be run.
    let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$2.new\" && chmod 755 \"$2.new\" && mv \"$2.new\" \"$2\"";
    let written = std::process::Command::new("sh").args(["-c", write, "sh", text]).arg(&file).status().unwrap();
    assert!(written.success(), "{written}");
    KeyCommand { words: vec![file.to_str().unwrap().to_owned()], limit_ms: 60_000 }
}

fn by(command: &KeyCommand) -> SecretRef {
    SecretRef { name: "vertex".parse().unwrap(), lookup: SecretLookup::Command(command.clone()) }
}

fn runs(folder: &Path) -> usize {
    fs::read_to_string(folder.join("runs")).unwrap_or_default().lines().count()
}

#[test]
fn output_is_a_key_or_json_with_an_end() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let kept = |output: &str| {
        let key = key(output.as_bytes(), now).map_err(|failure| failure.to_string())?;
        Ok::<_, String>((key.secret.expose().to_owned(), key.until.duration_since(now).unwrap().as_secs()))
    };
    for (output, secret, seconds) in [
        ("sk-12345678", "sk-12345678", 300),
        ("sk-12345678\n", "sk-12345678", 300),
        ("sk-12345678\r\n", "sk-12345678", 300),
        ("12345678", "12345678", 300),
        (r#"{"token": "sk-12345678"}"#, "sk-12345678", 300),
        (r#"{"token": "sk-12345678", "expires_in": 3600, "type": "Bearer"}"#, "sk-12345678", 3540),
        ("{\n  \"expires_in\": 3600.9,\n  \"token\": \"sk-12345678\"\n}\n", "sk-12345678", 3540),
        (r#"{"token": "sk-12345678", "expires_in": 59}"#, "sk-12345678", 0),
        (r#"{"token": "sk-12345678", "expires_in": 0}"#, "sk-12345678", 0),
        // 1,800,000,000 s after 1970 is 2027-01-15T08:00:00Z.
        (r#"{"token": "sk-12345678", "expires_at": "2027-01-15T08:10:00Z"}"#, "sk-12345678", 540),
        (r#"{"token": "sk-12345678", "expires_at": "2027-01-15T09:10:00.5+01:00"}"#, "sk-12345678", 540),
        (r#"{"token": "sk-12345678", "expires_at": "2020-01-01T00:00:00Z"}"#, "sk-12345678", 0),
        (r#"{"token": "sk-12345678", "expires_at": "2027-01-15T08:10:00Z", "expires_in": 100}"#, "sk-12345678", 40),
        (r#"{"token": "sk-12345678", "expires_in": 1e300}"#, "sk-12345678", 365 * 86_400 - 60),
    ] {
        assert_eq!(kept(output), Ok((secret.to_owned(), seconds)), "{output}");
    }
    let form = KeyCommandFailure::Form.to_string();
    let key = KeyCommandFailure::Key.to_string();
    for (output, why) in [
        ("", &key),
        ("\n", &key),
        ("short", &key),
        (" sk-12345678 ", &key),
        ("sk-12345678\nsk-87654321\n", &form),
        ("{\"token\": \"sk-12345678\"", &form),
        (r#"{"token": 12345678}"#, &form),
        (r#"{"access_token": "sk-12345678"}"#, &form),
        (r#"{"token": "sk-12345678", "expires_in": "3600"}"#, &form),
        (r#"{"token": "sk-12345678", "expires_in": -1}"#, &form),
        (r#"{"token": "sk-12345678", "expires_at": "tomorrow"}"#, &form),
        (r#"{"token": "sk-12345678", "expires_at": "2027-01-15T08:10:00"}"#, &form),
        (r#"{"token": "sk-12345678", "expires_at": 1800000000}"#, &form),
        (r#"{"token": "sk"}"#, &key),
    ] {
        assert_eq!(kept(output).unwrap_err(), *why, "{output}");
    }
    assert!(super::key(b"sk-1234\xff678", now).is_err());
}

proptest! {
    #[test]
    fn no_output_makes_the_parser_panic(
        output in prop::collection::vec(any::<u8>(), 0..64),
        token in "[ -~]{0,20}",
        end in any::<f64>(),
        seconds in 0_u64..u64::from(u32::MAX),
    ) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let _ = key(&output, now);
        let _ = key(serde_json::json!({ "token": token, "expires_in": end }).to_string().as_bytes(), now);
    }
}

#[test]
fn program_is_found_in_absolute_folders_only() {
    let folder = tempfile::tempdir().unwrap();
    let (own, plain) = (folder.path().join("own"), folder.path().join("plain"));
    for part in [&own, &plain] {
        fs::create_dir(part).unwrap();
    }
    script(&own, "give-key", "");
    fs::write(plain.join("give-key"), "not executable").unwrap();
    let path = |folders: &str| {
        let folders = folders.replace("OWN", own.to_str().unwrap()).replace("PLAIN", plain.to_str().unwrap());
        find_program("give-key", Some(OsStr::new(&folders)))
    };
    assert_eq!(path("PLAIN:OWN"), Some(own.join("give-key")));
    assert_eq!(path("/nonexistent:OWN"), Some(own.join("give-key")));
    for folders in ["", ".", ":", "own:.", "./own", "PLAIN"] {
        assert_eq!(path(folders), None, "{folders}");
    }
    assert_eq!(find_program("give-key", None), None);
    assert_eq!(find_program("/bin/sh", None), Some(PathBuf::from("/bin/sh")));
    for relative in ["bin/sh", "./sh", "../sh"] {
        assert_eq!(find_program(relative, Some(OsStr::new("/bin"))), None);
    }
}

/// A program in the current folder is not found by `.` in PATH, although a shell would run it.
#[tokio::test]
async fn command_runs_in_the_config_folder_with_the_environment_and_no_input() {
    let folder = tempfile::tempdir().unwrap();
    let command = script(folder.path(), "a", "cat; pwd; echo \"$PATH\"");
    let output = run(&command, folder.path(), None).await.unwrap();
    let path = env::var("PATH").unwrap();
    let here = folder.path().canonicalize().unwrap();
    assert_eq!(String::from_utf8(output).unwrap(), format!("{}\n{path}\n", here.display()));
    let command = KeyCommand { words: vec!["a".to_owned()], ..command };
    for path in [None, Some(OsStr::new(".")), Some(OsStr::new(""))] {
        assert_eq!(run(&command, folder.path(), path).await, Err(KeyCommandFailure::NotFound), "{path:?}");
    }
    assert!(run(&command, Path::new("/"), Some(folder.path().as_os_str())).await.is_ok());
}

#[tokio::test]
async fn failures_have_nothing_of_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let print = format!("echo {SENTINEL}; echo {SENTINEL} >&2");
    let long = format!("yes {SENTINEL}");
    for (text, failure) in [
        (format!("{print}; exit 1"), KeyCommandFailure::Exit(1)),
        (format!("{print}; kill -9 $$"), KeyCommandFailure::Signal(9)),
        (format!("{print}; {print}"), KeyCommandFailure::Form),
        (long, KeyCommandFailure::TooLong),
        (format!("echo '{{\"token\": \"{SENTINEL}'"), KeyCommandFailure::Form),
    ] {
        let command = script(folder.path(), "key", &text);
        let keys = KeyCommands::default();
        let error = keys.get(&by(&command), &command, folder.path()).await.unwrap_err();
        assert_eq!(error.failure, failure, "{text}");
        let words = format!("the key command of 'vertex' failed ({failure}). Run it yourself to see why: {command}");
        assert_eq!(error.to_string(), words);
        let plugin = CredentialError::from(error.clone()).for_plugin();
        assert_eq!(plugin, format!("the key command of 'vertex' failed ({failure})"));
        assert!(!format!("{error} {error:?} {plugin}").contains(SENTINEL), "{error:?}");
    }
    let exit = KeyCommandError {
        name: "vertex".parse().unwrap(),
        command: script(folder.path(), "a", ""),
        failure: KeyCommandFailure::Exit(1),
    };
    let gcloud =
        KeyCommand { words: ["gcloud", "auth", "print-access-token"].map(str::to_owned).to_vec(), limit_ms: 1 };
    assert_eq!(
        KeyCommandError { command: gcloud, ..exit }.to_string(),
        "the key command of 'vertex' failed (exit 1). Run it yourself to see why: gcloud auth print-access-token"
    );
}

/// Returns whether the process with this id is running. A zombie is not.
fn lives(id: &str) -> bool {
    fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until the file contains the ids of both processes, and returns them.
#[cfg(target_os = "linux")]
async fn ids(file: &Path) -> Vec<String> {
    for _ in 0..6_000 {
        let text = fs::read_to_string(file).unwrap_or_default();
        let ids: Vec<String> = text.lines().map(str::to_owned).collect();
        if ids.len() == 2 {
            return ids;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the command does not start");
}

async fn assert_dead(ids: &[String]) {
    for _ in 0..6_000 {
        if !ids.iter().any(|id| lives(id)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a process of the command still runs");
}

const HANGS: &str = "sleep 600 & echo $! >> ids; echo $$ >> ids; sleep 600";

/// Runs a command until it times out, and returns the ids of its `count` processes, which it writes to a file. On a busy machine,
/// it may time out before it has written them; then it is run again with a longer limit.
async fn ids_after_timeout(text: &str, count: usize) -> Vec<String> {
    for limit_ms in [300, 3_000, 30_000] {
        let folder = tempfile::tempdir().unwrap();
        let command = KeyCommand { limit_ms, ..script(folder.path(), "key", text) };
        let failure = run(&command, folder.path(), None).await.unwrap_err();
        assert_eq!(failure, KeyCommandFailure::Timeout { ms: limit_ms });
        assert_eq!(failure.to_string(), format!("no key within {limit_ms} ms, the limit 'key_command_ms'"));
        let text = fs::read_to_string(folder.path().join("ids")).unwrap_or_default();
        let ids: Vec<String> = text.lines().map(str::to_owned).collect();
        if ids.len() == count {
            return ids;
        }
    }
    panic!("the command does not start");
}

#[tokio::test]
async fn hanging_command_is_killed_with_its_children() {
    let ids = ids_after_timeout(HANGS, 2).await;
    if cfg!(target_os = "linux") {
        assert_dead(&ids).await;
    }
    // A child that keeps the output open, although the command itself has ended.
    let ids = ids_after_timeout("sleep 600 & echo $! >> ids; echo the-first-key", 1).await;
    if cfg!(target_os = "linux") {
        assert_dead(&ids).await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn cancelled_command_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let command = script(folder.path(), "key", HANGS);
    let there = folder.path().to_owned();
    let task = tokio::spawn(async move { run(&command, &there, None).await.map(drop) });
    let ids = ids(&folder.path().join("ids")).await;
    task.abort();
    assert_dead(&ids).await;
}

#[tokio::test]
async fn key_is_kept_until_it_ends_or_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let secrets = Secrets::with_environment(home, |_| Some("of-the-environment".into()));
    let key = async |command: &KeyCommand| secrets.get(&by(command)).await.unwrap().expose().to_owned();
    let numbered = "echo run >> runs; n=$(wc -l < runs);";
    let command = script(home, "plain", &format!("{numbered} echo key-number-$n"));
    assert_eq!(key(&command).await, "key-number-1");
    assert_eq!(key(&command).await, "key-number-1");
    // Only the key that was rejected is forgotten.
    let (first, other) = (Secret::new("key-number-1").unwrap(), Secret::new("other-key").unwrap());
    secrets.discard(&by(&command), &other).await;
    assert_eq!(key(&command).await, "key-number-1");
    secrets.discard(&by(&command), &first).await;
    assert_eq!(key(&command).await, "key-number-2");
    secrets.discard(&by(&command), &first).await;
    assert_eq!((key(&command).await.as_str(), runs(home)), ("key-number-2", 2));
    // A key that expires within a minute is used for one request only.
    let command =
        script(home, "ends", &format!("{numbered} echo '{{\"token\": \"key-number-'$n'\", \"expires_in\": 60}}'"));
    assert_eq!((key(&command).await, key(&command).await), ("key-number-3".to_owned(), "key-number-4".to_owned()));
    // A failure is not cached.
    let command = script(home, "fails", "echo run >> runs; exit 3");
    for expected in [5, 6] {
        assert!(matches!(secrets.get(&by(&command)).await, Err(CredentialError::KeyCommand(_))));
        assert_eq!(runs(home), expected);
    }
}

#[tokio::test]
async fn one_run_serves_all_that_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    for (name, text, is_ok) in [
        // This key expires immediately: it is shared but not cached.
        ("gives", "echo '{\"token\": \"the-first-key\", \"expires_in\": 0}'", true),
        ("fails", "exit 1", false),
    ] {
        let before = runs(home);
        let command = script(home, name, &format!("echo run >> runs; sleep 0.3; {text}"));
        let secrets = Arc::new(Secrets::open(home));
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let (secrets, secret) = (Arc::clone(&secrets), by(&command));
                tokio::spawn(async move { secrets.get(&secret).await.is_ok() })
            })
            .collect();
        for task in waiting {
            assert_eq!(task.await.unwrap(), is_ok, "{name}");
        }
        assert_eq!(runs(home), before + 1, "{name}");
    }
}

#[tokio::test]
async fn looking_for_a_key_runs_no_command_and_all_its_values_are_scrubbed() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let command = script(home, "key", "echo run >> runs; n=$(wc -l < runs); echo key-number-$n");
    let secrets = Secrets::open(home);
    let origin: Origin = "https://a.org".parse().unwrap();
    secrets.bind([Binding { secret: by(&command), origin: origin.clone() }]);
    let text = "key-number-1 key-number-2 key-number-3";
    assert_eq!(secrets.scrub(&origin).await.text(text), text);
    assert_eq!(secrets.locate(&by(&command)).unwrap(), crate::SecretSource::Command);
    assert!(secrets.peek(&by(&command)).unwrap().is_none());
    assert_eq!(runs(home), 0);
    for _ in 0..2 {
        let value = secrets.get(&by(&command)).await.unwrap();
        secrets.discard(&by(&command), &value).await;
    }
    assert_eq!(secrets.scrub(&origin).await.text(text), "[secret] [secret] key-number-3");
    assert_eq!(runs(home), 2);
}

use std::fs;

use super::*;

fn name(name: &str) -> Name {
    name.parse().unwrap()
}

/// A home whose `credentials.json` holds this, closed to others.
fn home(text: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    write(&home, text);
    home
}

fn write(home: &tempfile::TempDir, text: &str) {
    let file = home.path().join("credentials.json");
    fs::write(&file, text).unwrap();
    #[cfg(unix)]
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

fn environment(variable: &str) -> Option<OsString> {
    match variable {
        "SET" => Some("from-the-environment".into()),
        "EMPTY" => Some(OsString::new()),
        "SHORT" => Some("sk-1".into()),
        #[cfg(unix)]
        "BYTES" => Some(std::os::unix::ffi::OsStringExt::from_vec(b"sk-1234\xff".to_vec())),
        _ => None,
    }
}

#[test]
fn the_environment_comes_first_then_the_file() {
    let home = home(r#"{"a": {"token": "from-the-file"}, "b": {"api_key": "as-a-provider"}, "c": {"token": ""}}"#);
    let secrets = Secrets::with_environment(home.path(), environment);
    let get = |of: &str, variable: &str| secrets.get(&name(of), variable).map(|secret| secret.expose().to_owned());
    assert_eq!(get("a", "SET").unwrap(), "from-the-environment");
    assert_eq!(get("a", "EMPTY").unwrap(), "from-the-file");
    assert_eq!(get("a", "UNSET").unwrap(), "from-the-file");
    assert_eq!(get("b", "UNSET").unwrap(), "as-a-provider");
    for none in ["c", "d"] {
        assert!(matches!(get(none, "UNSET"), Err(CredentialError::NoSecret { .. })), "{none}");
    }
    let short = get("a", "SHORT").unwrap_err();
    assert_eq!(
        short.to_string(),
        "the secret of credential 'a' in the environment variable SHORT cannot be used: a secret has from 8 to 4096 characters; \
         this one has 4"
    );
    #[cfg(unix)]
    assert!(matches!(get("a", "BYTES"), Err(CredentialError::Unusable { source: SecretError::Characters, .. })));
}

#[test]
fn a_missing_file_is_no_error_and_one_that_comes_is_read() {
    let home = tempfile::tempdir().unwrap();
    let secrets = Secrets::with_environment(home.path(), environment);
    assert!(matches!(secrets.get(&name("a"), "UNSET"), Err(CredentialError::NoSecret { .. })));
    write(&home, r#"{"a": {"token": "from-the-file"}}"#);
    assert_eq!(secrets.get(&name("a"), "UNSET").unwrap().expose(), "from-the-file");
    // What was found is held: neither the file nor its loss is looked at again.
    fs::remove_file(home.path().join("credentials.json")).unwrap();
    assert_eq!(secrets.get(&name("a"), "UNSET").unwrap().expose(), "from-the-file");
}

#[test]
fn a_malformed_file_names_the_place_and_never_what_stands_there() {
    let data = "the file reads {\"NAME\": {\"token\": \"…\"}}, and has nothing else";
    for (text, line, column, what) in [
        ("{\"a\": {\"token\": \"sk-secret", 1, 26, "the file ends too early"),
        ("{\"a\":\n  sk-secret}", 2, 3, "this is not JSON"),
        ("", 1, 0, "the file ends too early"),
        ("[\"sk-secret\"]", 1, 0, data),
        ("{\"a\": \"sk-secret\"}", 1, 17, data),
        ("{\"a\": {\"token\": 5}}", 1, 17, data),
        ("{\"a\": {\"sk-secret\": \"x\"}}", 1, 18, data),
        ("{\"a\": {\"token\": \"sk-secret\", \"api_key\": \"sk-secret\"}}", 1, 38, data),
        ("{\"a\": {}}", 1, 8, data),
    ] {
        let home = home(text);
        let error = Secrets::with_environment(home.path(), environment).get(&name("a"), "UNSET").unwrap_err();
        let CredentialError::Malformed(found) = &error else { panic!("{text}: {error}") };
        assert_eq!(*found, Malformed { line, column, what }, "{text}");
        assert!(error.to_string().starts_with(&format!("credentials.json, line {line}, column {column}: ")));
        assert!(!format!("{error} {error:?}").contains("sk-"), "{error:?}");
        assert_eq!(error.kind(), "unavailable");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_without_its_path() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("credentials.json")).unwrap();
    let error = Secrets::with_environment(home.path(), environment).get(&name("a"), "UNSET").unwrap_err();
    assert!(matches!(error, CredentialError::Unreadable(_)), "{error}");
    assert!(!error.to_string().contains(home.path().to_str().unwrap()), "{error}");
}

#[cfg(unix)]
#[test]
fn a_file_that_others_may_read_is_a_warning_once() {
    let home = home("{}");
    let path = home.path().join("credentials.json");
    for (mode, open) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o620, true)] {
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let secrets = Secrets::with_environment(home.path(), environment);
        let warning = || secrets.warning(&File::open(&path).unwrap());
        let words = format!("others may read {0}, which holds secrets; to close it: chmod 600 '{0}'", path.display());
        assert_eq!(warning(), open.then_some(words), "{mode:o}");
        assert_eq!(warning(), None, "{mode:o}");
    }
}

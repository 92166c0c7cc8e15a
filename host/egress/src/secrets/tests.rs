//! Tests of the environment, `credentials.json`, and bindings to origins.

use std::fs::{self, File};

use super::*;

fn name(name: &str) -> Name {
    name.parse().unwrap()
}

/// Creates a home with this `credentials.json`, which other users cannot read.
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

/// Returns the secret `of`, which is in this variable or in the file.
fn secret(of: &str, variable: &str) -> SecretRef {
    SecretRef { name: name(of), lookup: SecretLookup::Stored(Variables::new([variable.to_owned()])) }
}

fn environment(variable: &str) -> Option<OsString> {
    match variable {
        "SET" => Some("from-the-environment".into()),
        "EMPTY" => Some(OsString::new()),
        "ALSO" => Some("from-the-second-variable".into()),
        "SHORT" => Some("sk-1".into()),
        #[cfg(unix)]
        "BYTES" => Some(std::os::unix::ffi::OsStringExt::from_vec(b"sk-1234\xff".to_vec())),
        _ => None,
    }
}

#[test]
fn environment_takes_precedence_over_the_file() {
    let home = home(r#"{"a": {"token": "from-the-file"}, "b": {"api_key": "as-a-provider"}, "c": {"token": ""}}"#);
    let secrets = Secrets::with_environment(home.path(), environment);
    let get = |of: &str, variable: &str| secrets.stored(&secret(of, variable)).map(|secret| secret.expose().to_owned());
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
        "the secret of credential 'a' in the environment variable SHORT cannot be used: a secret must have 8 to \
         4096 characters; this one has 4"
    );
    #[cfg(unix)]
    assert!(matches!(get("a", "BYTES"), Err(CredentialError::Unusable { source: SecretError::Characters, .. })));
}

#[test]
fn first_variable_that_is_set_has_the_secret() {
    let home = home(r#"{"a": {"token": "from-the-file"}}"#);
    let secrets = Secrets::with_environment(home.path(), environment);
    let found = |variables: &[&str]| {
        let variables = Variables::new(variables.iter().map(|name| (*name).to_owned()));
        let secret = SecretRef { name: name("a"), lookup: SecretLookup::Stored(variables) };
        let place = secrets.locate(&secret).unwrap();
        (secrets.peek(&secret).unwrap().unwrap().expose().to_owned(), place)
    };
    let variable = |name: &str| SecretSource::Variable(name.to_owned());
    assert_eq!(found(&["SET", "ALSO"]), ("from-the-environment".to_owned(), variable("SET")));
    assert_eq!(found(&["ALSO", "SET"]), ("from-the-second-variable".to_owned(), variable("ALSO")));
    assert_eq!(found(&["UNSET", "EMPTY", "ALSO"]), ("from-the-second-variable".to_owned(), variable("ALSO")));
    assert_eq!(found(&["UNSET", "EMPTY"]), ("from-the-file".to_owned(), SecretSource::File));
    assert_eq!(found(&[]), ("from-the-file".to_owned(), SecretSource::File));
}

#[test]
fn missing_file_is_allowed_and_created_one_is_read() {
    let home = tempfile::tempdir().unwrap();
    let secrets = Secrets::with_environment(home.path(), environment);
    assert!(matches!(secrets.stored(&secret("a", "UNSET")), Err(CredentialError::NoSecret { .. })));
    write(&home, r#"{"a": {"token": "from-the-file"}}"#);
    assert_eq!(secrets.stored(&secret("a", "UNSET")).unwrap().expose(), "from-the-file");
    // A secret that was found is kept, even if the file is lost or damaged later.
    fs::remove_file(home.path().join("credentials.json")).unwrap();
    assert_eq!(secrets.stored(&secret("a", "UNSET")).unwrap().expose(), "from-the-file");
    write(&home, "{\"a\": {\"token\": \"from-th");
    assert_eq!(secrets.stored(&secret("a", "UNSET")).unwrap().expose(), "from-the-file");
}

fn origin(text: &str) -> Origin {
    text.parse().unwrap()
}

fn binding(of: &str, variable: &str, to: &str) -> Binding {
    Binding { secret: secret(of, variable), origin: origin(to) }
}

#[tokio::test]
async fn responses_are_scrubbed_of_every_secret_bound_to_the_host() {
    let home = home(r#"{"a": {"token": "secret-of-a"}, "b": {"token": "secret-of-b"}, "c": {"token": "secret-of-c"}}"#);
    let secrets = Secrets::with_environment(home.path(), environment);
    secrets.bind([
        binding("a", "UNSET", "https://a.org"),
        binding("b", "UNSET", "https://a.org:8443"),
        binding("c", "UNSET", "https://c.org"),
        binding("d", "SET", "http://localhost:8080"),
        // A missing secret does not affect the others.
        binding("e", "UNSET", "https://a.org"),
    ]);
    let text = "secret-of-a secret-of-b secret-of-c from-the-environment";
    for (to, clean) in [
        ("https://a.org", "[secret] [secret] secret-of-c from-the-environment"),
        ("http://127.0.0.1:8080", "secret-of-a secret-of-b secret-of-c [secret]"),
        ("http://localhost:9", "secret-of-a secret-of-b secret-of-c [secret]"),
        ("https://d.org", text),
    ] {
        assert_eq!(secrets.scrub(&origin(to)).await.text(text), clean, "{to}");
    }
    assert!(secrets.scrub(&origin("https://d.org")).await.is_empty());
}

/// A key that is replaced while the process runs is used, and the previous one is still scrubbed.
#[tokio::test]
async fn replaced_secret_is_used_and_both_are_scrubbed() {
    let home = home(r#"{"a": {"api_key": "the-first-key"}}"#);
    let secrets = Secrets::with_environment(home.path(), environment);
    secrets.bind([binding("a", "UNSET", "https://a.org")]);
    let scrubbed = async || secrets.scrub(&origin("https://a.org")).await.text("the-first-key the-second-key!");
    assert_eq!(scrubbed().await, "[secret] the-second-key!");
    write(&home, r#"{"a": {"api_key": "the-second-key!"}}"#);
    assert_eq!(secrets.stored(&secret("a", "UNSET")).unwrap().expose(), "the-second-key!");
    assert_eq!(scrubbed().await, "[secret] [secret]");
}

#[tokio::test]
async fn late_bindings_are_loaded_before_scrubbing() {
    let home = home(r#"{"a": {"api_key": "the-first-key"}}"#);
    let secrets = std::sync::Arc::new(Secrets::with_environment(home.path(), environment));
    let late = std::sync::Arc::downgrade(&secrets);
    secrets.bind_with(std::sync::Arc::new(move || {
        let late = late.upgrade().unwrap();
        Box::pin(async move { late.bind([binding("a", "UNSET", "https://a.org")]) })
    }));
    assert_eq!(secrets.scrub(&origin("https://a.org")).await.text("the-first-key"), "[secret]");
}

#[test]
fn malformed_file_error_names_position_not_content() {
    for (text, what) in [
        ("{\"a\": {\"token\": \"sk-secret", "line 1, column 26: the file ends too early"),
        ("{\"a\":\n  sk-secret}", "line 2, column 3: this is not JSON"),
        ("", "line 1, column 0: the file ends too early"),
        ("[\"sk-secret\"]", "the file must be an object: {\"NAME\": {\"api_key\": \"…\"}}"),
    ] {
        let home = home(text);
        let error = Secrets::with_environment(home.path(), environment).stored(&secret("a", "UNSET")).unwrap_err();
        let file = home.path().join("credentials.json");
        assert_eq!(error.to_string(), format!("{}, {what}", file.display()), "{text}");
        assert_eq!(error.for_plugin(), format!("credentials.json, {what}"), "{text}");
        assert!(!format!("{error} {error:?}").contains("sk-"), "{error:?}");
        assert_eq!(error.kind(), "unavailable");
    }
}

#[test]
fn invalid_entry_affects_no_other_entry() {
    let home = home(
        r#"{"a": {"api_key": "the-key-of-a", "org": "x", "token": 5}, "b": "sk-secret", "c": {"sk-secret": "x"}, "d": {"token": 5},
            "e": {}, "f": ["sk-secret"], "note": null}"#,
    );
    let secrets = Secrets::with_environment(home.path(), environment);
    assert_eq!(secrets.stored(&secret("a", "UNSET")).unwrap().expose(), "the-key-of-a");
    assert!(matches!(secrets.stored(&secret("g", "UNSET")), Err(CredentialError::NoSecret { .. })));
    for bad in ["b", "c", "d", "e", "f"] {
        let error = secrets.stored(&secret(bad, "UNSET")).unwrap_err();
        let words = format!("the entry '{bad}' has no key; write \"{bad}\": {{\"api_key\": \"…\"}}");
        assert_eq!(error.to_string(), format!("{}: {words}", home.path().join("credentials.json").display()));
        assert_eq!(error.for_plugin(), format!("credentials.json: {words}"));
        assert!(!format!("{error:?}").contains("sk-"), "{error:?}");
        // The environment takes precedence, whatever the file contains.
        assert_eq!(secrets.stored(&secret(bad, "SET")).unwrap().expose(), "from-the-environment");
    }
}

#[test]
fn unreadable_file_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("credentials.json");
    fs::create_dir(&file).unwrap();
    let error = Secrets::with_environment(home.path(), environment).stored(&secret("a", "UNSET")).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read {}: it is not a regular file", file.display()));
    assert_eq!(error.for_plugin(), "cannot read credentials.json: it is not a regular file");
    fs::remove_dir(&file).unwrap();
    fs::write(&file, vec![b' '; (1 << 20) + 1]).unwrap();
    let error = Secrets::with_environment(home.path(), environment).stored(&secret("a", "UNSET")).unwrap_err();
    assert!(error.to_string().ends_with("it has more than 1048576 bytes"), "{error}");
}

#[cfg(unix)]
#[test]
fn file_readable_by_others_is_warned_of_once() {
    let home = home("{}");
    let path = home.path().join("credentials.json");
    for (mode, open) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o620, true)] {
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let secrets = Secrets::with_environment(home.path(), environment);
        let warning = || secrets.file.warning(&File::open(&path).unwrap());
        let words =
            format!("other users can read {0}, which contains secrets. To fix it: chmod 600 '{0}'", path.display());
        assert_eq!(warning(), open.then_some(words), "{mode:o}");
        assert_eq!(warning(), None, "{mode:o}");
    }
}

#[tokio::test]
async fn scrub_of_all_knows_every_secret_of_the_home() {
    let home =
        home(r#"{"a": {"token": "of-no-provider-7"}, "b": {"api_key": "also-in-the-file"}, "c": {"token": "short"}}"#);
    let secrets = Secrets::with_environment(home.path(), environment);
    assert_eq!(secrets.scrub_known().text("of-no-provider-7 also-in-the-file"), "[secret] [secret]");
    secrets.bind([Binding { secret: secret("d", "SET"), origin: origin("https://example.com") }]);
    let all = secrets.scrub_all().await;
    assert_eq!(all.text("from-the-environment of-no-provider-7 short"), "[secret] [secret] short");
}

#[tokio::test]
async fn known_scrub_is_made_again_only_after_a_change() {
    let home = home(r#"{"a": {"token": "first-in-the-file"}}"#);
    let secrets = Secrets::with_environment(home.path(), environment);
    let first = secrets.scrub_known();
    assert!(first.is_same(&secrets.scrub_known()));
    secrets.bind([Binding { secret: secret("d", "SET"), origin: origin("https://example.com") }]);
    let bound = secrets.scrub_known();
    assert!(!bound.is_same(&first) && bound.is_same(&secrets.scrub_known()));
    assert_eq!(bound.text("from-the-environment first-in-the-file"), "[secret] [secret]");
    // A value that was used stays known after it was replaced.
    assert!(secrets.peek(&secret("a", "UNSET")).unwrap().is_some());
    write(&home, r#"{"a": {"token": "the-second-in-the-file"}}"#);
    assert_eq!(secrets.scrub_known().text("first-in-the-file the-second-in-the-file"), "[secret] [secret]");
    fs::remove_file(home.path().join("credentials.json")).unwrap();
    assert_eq!(secrets.scrub_known().text("first-in-the-file from-the-environment"), "[secret] [secret]");
}

//! Tests of credentials: their secrets, origins and placements, and the errors.

use super::*;

fn name(name: &str) -> Name {
    name.parse().unwrap()
}

fn table(text: &str) -> Result<BTreeMap<Name, CredentialConfig>, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

#[test]
fn table_has_an_origin_and_an_optional_variable() {
    let table = table(
        "[github]\norigin = \"https://api.github.com\"\n[my-ci]\norigin = \"http://127.0.0.1:8080\"\nenv = \"CI\"",
    )
    .unwrap();
    assert_eq!(table["github"].origin.to_string(), "https://api.github.com");
    let variables = |of: &str, config: &CredentialConfig| config.secret(&name(of)).lookup.variables().to_vec();
    assert_eq!(variables("github", &table["github"]), ["GITHUB_TOKEN"]);
    assert_eq!(table["my-ci"].origin.to_string(), "http://127.0.0.1:8080");
    assert_eq!(variables("my-ci", &table["my-ci"]), ["CI"]);
    let unnamed = CredentialConfig { env: None, ..table["my-ci"].clone() };
    assert_eq!(variables("my-ci", &unnamed), ["MY_CI_TOKEN"]);
}

#[test]
fn table_has_several_variables_or_a_command() {
    let table = table(
        "[a]\norigin = \"https://a.org\"\nenv = [\"A\", \"B\"]\n[b]\norigin = \"https://b.org\"\nkey_command = [\"pass\", \"b\"]",
    )
    .unwrap();
    assert_eq!(table["a"].secret(&name("a")).lookup.variables(), ["A", "B"]);
    let by_command = table["b"].secret(&name("b"));
    assert_eq!(by_command.command().unwrap().to_string(), "pass b");
    assert!(by_command.lookup.variables().is_empty());
}

#[test]
fn configuration_errors_name_the_position() {
    for (text, words) in [
        ("[a]", "missing field `origin`"),
        ("[a]\norigin = \"https://a.org/v1\"", "an origin has neither path nor query"),
        ("[a]\norigin = \"https://u:p@a.org\"", "it contains a user name or a password"),
        ("[a]\norigin = \"ftp://a.org\"", "its scheme is 'ftp'"),
        ("[a]\norigin = \"a.org\"", "relative URL without a base"),
        ("[a]\norigin = \"http://a.org\"", "http://a.org would receive the secret unencrypted"),
        ("[a]\norigin = \"http://10.0.0.1\"", "http://10.0.0.1 would receive the secret unencrypted"),
        ("[a]\norigin = \"https://a.org\"\nenv = \"\"", "invalid name of an environment variable"),
        ("[a]\norigin = \"https://a.org\"\nenv = \"sk-123456789\"", "invalid name of an environment variable"),
        ("[a]\norigin = \"https://a.org\"\nenv = [\"A\", \"sk-123456789\"]", "invalid name of an environment variable"),
        ("[a]\norigin = \"https://a.org\"\nenv = \"A\"\nkey_command = [\"b\"]", "set `env` or `key_command`, not both"),
        (
            "[a]\norigin = \"https://a.org\"\nkey_command = [\"bin/b\"]",
            "a name without '/', which is looked up in PATH",
        ),
        ("[a]\norigin = \"https://a.org\"\ntoken = \"x\"", "unknown field `token`"),
        ("[a]\norigin = \"https://a.org\"\nheader = \"sk 12345\"", "invalid header name"),
        ("[a]\norigin = \"https://a.org\"\nheader = \"Host\"", "the header 'host' is set by the host"),
        ("[a]\norigin = \"https://a.org\"\nquery = \"\"", "use 1 to 64 ASCII characters"),
        ("[a]\norigin = \"https://a.org\"\nquery = \"a\"\nheader = \"b\"", "set `header` or `query`, not both"),
        ("a = \"sk-12345\"", "a credential is a table with `origin`"),
        ("[A]\norigin = \"https://a.org\"", "'A' is not a valid name"),
    ] {
        let error = table(text).unwrap_err();
        assert!(error.contains(words) && error.contains("line "), "{text}: {error}");
    }
}

#[tokio::test]
async fn credential_is_bound_to_its_origin() {
    let home = tempfile::tempdir().unwrap();
    let table =
        table("[a]\norigin = \"https://a.org\"\n[b]\norigin = \"https://b.org\"\nenv = \"SURELY_NOT_SET\"").unwrap();
    std::fs::write(home.path().join("credentials.json"), r#"{"a": {"token": "sk-12345"}, "c": {"token": "sk-67890"}}"#)
        .unwrap();
    let credentials = Credentials::open(home.path(), table);
    let credential = credentials.get(&name("a")).await.unwrap();
    assert_eq!((credential.origin.to_string().as_str(), credential.secret.expose()), ("https://a.org", "sk-12345"));
    let missing = credentials.get(&name("b")).await.unwrap_err();
    assert_eq!(missing.kind(), "unavailable");
    assert_eq!(
        missing.to_string(),
        "credential 'b' has no secret: set SURELY_NOT_SET, or add \"b\": {\"api_key\": \"…\"} to credentials.json"
    );
    // A secret without a table is not bound to an origin, and is therefore never sent.
    let unbound = credentials.get(&name("c")).await.unwrap_err();
    assert_eq!(unbound.kind(), "not-found");
    assert_eq!(
        unbound.to_string(),
        "credential 'c' not found: add a table [credentials.c] with its origin to config.toml"
    );
    assert!(!format!("{credentials:?} {credential:?}").contains("sk-"));
}

#[test]
fn secret_placement_is_a_header_or_configured() {
    let header = |name: &str| Placement::Header { name: name.to_owned(), prefix: "Bearer ".to_owned() };
    let query = |name: &str| Placement::Query(name.to_owned());
    let refused = |what: &str, how: &str| Err(format!("credential 'x' may not be sent in {what}; {how}"));
    let only =
        |what: &str, allowed: &str| refused(what, &format!("[credentials.x] of config.toml only allows {allowed}"));
    let unset = refused("the query", "to allow it, write query = \"key\" in [credentials.x] of config.toml");
    let (key, token) = ("query = \"key\"", "header = \"private-token\"");
    for (place, placement, expected) in [
        ("", header("Authorization"), Ok(())),
        ("", header("x-anything"), Ok(())),
        ("", query("key"), unset),
        (key, query("key"), Ok(())),
        (key, query("Key"), only("the query parameter 'Key'", "the query parameter 'key'")),
        (key, header("a"), only("the header 'a'", "the query parameter 'key'")),
        (token, header("Private-Token"), Ok(())),
        (token, header("authorization"), only("the header 'authorization'", "the header 'private-token'")),
        (token, query("key"), only("the query parameter 'key'", "the header 'private-token'")),
    ] {
        let table = table(&format!("[x]\norigin = \"https://a.org\"\n{place}")).unwrap();
        let found = table["x"].check(&name("x"), &placement).map_err(|error| error.to_string());
        assert_eq!(found, expected, "{place} {placement:?}");
    }
}

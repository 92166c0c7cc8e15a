//! HTTP requests of skills: only to granted origins, and with credentials that only the server receives.

use patchbay_tests::{
    binary::{Patchbay, ran},
    calls::{Credential, fetching},
    home::assert_in_no_file,
    server::{Server, page},
};

const SENTINEL: &str = "tr0ub4dor+&3/sentinel=";

/// Installs a skill `getter` whose command `/get` requests `url`; it requests `capabilities`.
fn fetcher(patchbay: &Patchbay, url: &str, credential: Option<Credential<'_>>, capabilities: &[&str]) {
    let asked: Vec<String> = capabilities.iter().map(|name| format!("{{name: '{name}'}}")).collect();
    let skill_md = format!(
        "---\ninvocation_mode: tool_dispatch\ncommand: get\ncommand_tool: run\ncapabilities: [{}]\n---\n",
        asked.join(", ")
    );
    patchbay.write("home/config/skills/getter.wasm", fetching(url, credential, SENTINEL).packaged(&skill_md));
}

#[test]
fn request_needs_a_grant_for_its_exact_host() {
    let (patchbay, server) = (Patchbay::new(), Server::echo());
    let capability = format!("http:{}", server.host());
    fetcher(&patchbay, &format!("http://{}/a?b=c", server.host()), None, &[&capability]);
    let denied = patchbay.line("/get");
    let words = format!(
        "Error: skill 'getter' may not use '{capability}': it is not granted. To grant it: patchbay grant add getter {capability}"
    );
    assert_eq!(denied, words);
    assert_eq!(server.requests().len(), 0, "the request went out all the same");
    patchbay.grant("getter", &[&capability]);
    let page = patchbay.line("/get");
    assert!(page.starts_with("GET /a?b=c HTTP/1.1"), "{page}");
    assert_eq!(server.requests().len(), 1);
    let journal = patchbay.run(&["journal", "--json"]).out;
    let last: serde_json::Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    assert_eq!(last["grants"], serde_json::json!([capability]));
}

#[test]
fn public_host_grant_excludes_loopback_and_private_networks() {
    let server = Server::echo();
    let port = server.host().rsplit(':').next().unwrap().to_owned();
    let urls = [
        format!("https://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("https://2130706433:{port}/"),
        format!("https://0177.0.0.1:{port}/"),
        "https://169.254.169.254/latest/meta-data/".to_owned(),
        "https://10.0.0.1/".to_owned(),
        "http://example.com/".to_owned(),
        "https://user:password@example.com/".to_owned(),
        "https://[::1]/".to_owned(),
        "file:///etc/passwd".to_owned(),
    ];
    let patchbay = Patchbay::new();
    for (number, url) in urls.iter().enumerate() {
        let skill_md = format!(
            "---\ninvocation_mode: tool_dispatch\ncommand: get{number}\ncommand_tool: run\n\
             capabilities: [{{name: 'http:*'}}]\n---\n"
        );
        let guest = fetching(url, None, SENTINEL).packaged(&skill_md);
        patchbay.write(&format!("home/config/skills/getter{number}.wasm"), guest);
        patchbay.run(&["grant", "add", &format!("getter{number}"), "http:*"]);
    }
    let lines: Vec<String> = (0..urls.len()).map(|number| format!("/get{number}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for (url, answer) in urls.iter().zip(patchbay.answers(&lines)) {
        // The policy permits the request, and egress rejects it.
        let kind = answer.data()["kind"].as_str();
        let refused = answer.code() == "denied" || matches!(kind, Some("denied" | "invalid"));
        assert!(refused, "{url}: {answer:?}");
    }
    assert_eq!(server.requests().len(), 0, "a request came through");
}

#[test]
fn credential_reaches_only_its_server() {
    let (patchbay, server) = (Patchbay::new(), Server::echo());
    let host = format!("http:{}", server.host());
    patchbay.write(
        "home/config/config.toml",
        format!(
            "[credentials.forge]\norigin = \"http://{}\"\nenv = \"FORGE\"\n[journal]\ncontent = true\n",
            server.host()
        ),
    );
    let credential = Some(("forge", "Authorization", "Bearer "));
    fetcher(&patchbay, &format!("http://{}/", server.host()), credential, &[&host, "credential:forge"]);
    patchbay.grant("getter", &[&host]);
    let get = |lines: &[&str]| {
        let mut command = patchbay.command(&[&["exec", "--json", "--keep-going"], lines].concat());
        ran(command.env("FORGE", SENTINEL).env("PATCHBAY_LOG", "trace").output().unwrap())
    };
    let denied = get(&["/get"]);
    assert!(denied.out.contains("patchbay grant add getter credential:forge"), "{}", denied.out);
    assert_eq!(server.requests().len(), 0);
    patchbay.grant("getter", &["credential:forge"]);

    // The server echoes the credential. The guest searches all of its memory and traps if it finds it.
    let answered = get(&["/get", "/skills"]);
    assert_eq!(server.requests().len(), 1);
    assert!(
        server.requests()[0].contains(&format!("Bearer {SENTINEL}")),
        "the server was not told: {:?}",
        server.requests()
    );
    assert!(answered.out.contains("authorization: Bearer [secret]"), "{}", answered.out);
    for (what, text) in [("output", &answered.out), ("log", &answered.err)] {
        assert!(!text.contains(SENTINEL), "the secret is in the {what}");
    }
    assert_in_no_file(&patchbay.home(), &[SENTINEL]);
    let journal = patchbay.run(&["journal", "--json"]).out;
    assert!(journal.contains("credential:forge") && journal.contains("[secret]"), "{journal}");
}

/// Installs a skill `name` whose command `/NAME` requests `url`, and grants all its capabilities.
fn granted(patchbay: &Patchbay, name: &str, url: &str, credential: Option<Credential<'_>>, capabilities: &[&str]) {
    let asked: Vec<String> = capabilities.iter().map(|name| format!("{{name: '{name}'}}")).collect();
    let skill_md = format!(
        "---\ninvocation_mode: tool_dispatch\ncommand: {name}\ncommand_tool: run\ncapabilities: [{}]\n---\n",
        asked.join(", ")
    );
    patchbay.write(&format!("home/config/skills/{name}.wasm"), fetching(url, credential, SENTINEL).packaged(&skill_md));
    for capability in capabilities {
        assert_eq!(patchbay.run(&["grant", "add", name, capability]).code, Some(0));
    }
}

/// Starts a server that stores the `authorization` header of a request to `/store` and returns it to other requests.
fn storing() -> Server {
    let stored = std::sync::Mutex::new(String::from("nothing"));
    Server::new(move |request| {
        let mut stored = stored.lock().unwrap();
        if request.starts_with("GET /store") {
            let header = request.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization:"));
            *stored = header.unwrap_or_default().to_owned();
            return page("stored");
        }
        page(&format!(
            "it was: {stored}, {}",
            stored.as_bytes().iter().map(|b| format!("{b:02X}:")).collect::<String>()
        ))
    })
}

/// Each `exec` is a new process, so the process of the second `exec` has never sent the secret.
#[test]
fn secret_stored_by_one_process_is_redacted_in_another() {
    let (patchbay, server) = (Patchbay::new(), storing());
    let (host, base) = (format!("http:{}", server.host()), format!("http://{}", server.host()));
    patchbay.write("home/config/config.toml", format!("[credentials.forge]\norigin = \"{base}\"\nenv = \"FORGE\"\n"));
    let credential = Some(("forge", "Authorization", "Bearer "));
    granted(&patchbay, "store", &format!("{base}/store"), credential, &[&host, "credential:forge"]);
    granted(&patchbay, "read", &format!("{base}/read"), None, &[&host]);
    let exec = |line: &str| ran(patchbay.command(&["exec", line]).env("FORGE", SENTINEL).output().unwrap());
    assert_eq!(exec("/store").out, "stored\n");
    assert!(server.requests()[0].contains(&format!("Bearer {SENTINEL}")), "the server was not told");
    // The guest traps if the secret is in its memory.
    let read = exec("/read");
    assert_eq!(read.code, Some(0), "{read:?}");
    assert!(read.out.starts_with("it was: authorization: Bearer [secret], 61:"), "{}", read.out);
    assert!(read.out.ends_with("20:[secret]:\n"), "{}", read.out);
    assert!(!server.requests()[1].to_ascii_lowercase().contains("authorization"), "{}", server.requests()[1]);
}

/// A provider's key is bound to its origin, as a credential is: a skill with access to the same server cannot read it.
#[test]
fn provider_key_is_redacted_from_responses_to_skills() {
    let (patchbay, server) = (Patchbay::new(), Server::new(|_| page(&format!("stored: {SENTINEL}"))));
    let (host, base) = (format!("http:{}", server.host()), format!("http://{}", server.host()));
    let table =
        format!("[providers.local]\nadapter = \"openai-compatible\"\norigin = \"{base}/v1\"\nenv = \"LOCAL_KEY\"\n");
    patchbay.write("home/config/config.toml", table);
    granted(&patchbay, "read", &format!("{base}/read"), None, &[&host]);
    let read = ran(patchbay.command(&["exec", "/read"]).env("LOCAL_KEY", SENTINEL).output().unwrap());
    assert_eq!(read.out, "stored: [secret]\n", "{}", read.err);
}

#[test]
fn credential_in_query_requires_configuration() {
    let (patchbay, server) = (Patchbay::new(), Server::echo());
    let (host, base) = (format!("http:{}", server.host()), format!("http://{}", server.host()));
    let table = |more: &str| {
        let table = format!("[credentials.forge]\norigin = \"{base}\"\nenv = \"FORGE\"\n{more}");
        patchbay.write("home/config/config.toml", table);
    };
    table("");
    granted(&patchbay, "ask", &format!("{base}/"), Some(("forge", "?key", "")), &[&host, "credential:forge"]);
    let exec = || ran(patchbay.command(&["exec", "--json", "/ask"]).env("FORGE", SENTINEL).output().unwrap()).out;
    let refused = exec();
    let words = r#"credential 'forge' may not be sent in the query; to allow it, write query = \"key\" in [credentials.forge] of config.toml"#;
    assert!(refused.contains(words) && refused.contains(r#""code":"credential_placement""#), "{refused}");
    table("header = \"private-token\"\n");
    let elsewhere = exec();
    assert!(elsewhere.contains("only allows the header 'private-token'"), "{elsewhere}");
    assert_eq!(server.requests().len(), 0);
    table("query = \"key\"\n");
    let answered = exec();
    assert!(answered.contains("GET /?key=[secret] HTTP/1.1"), "{answered}");
    assert!(server.requests()[0].starts_with("GET /?key=tr0ub4dor"), "{}", server.requests()[0]);
}

#[test]
fn credential_is_sent_only_to_its_origin() {
    let (patchbay, server, other) = (Patchbay::new(), Server::echo(), Server::echo());
    patchbay.write(
        "home/config/config.toml",
        format!("[credentials.forge]\norigin = \"http://{}\"\nenv = \"FORGE\"\n", other.host()),
    );
    let host = format!("http:{}", server.host());
    let credential = Some(("forge", "Authorization", "Bearer "));
    fetcher(&patchbay, &format!("http://{}/", server.host()), credential, &[&host, "credential:forge"]);
    patchbay.grant("getter", &[&host, "credential:forge"]);
    let refused = ran(patchbay.command(&["exec", "/get"]).env("FORGE", SENTINEL).output().unwrap());
    let words =
        format!("credential is bound to http://{}; refusing to send it to http://{}", other.host(), server.host());
    assert!(refused.err.contains(&words), "{}", refused.err);
    assert_eq!((server.requests().len(), other.requests().len()), (0, 0));
}

#[test]
fn missing_credential_error_says_how_to_set_it() {
    let (patchbay, server) = (Patchbay::new(), Server::echo());
    let host = format!("http:{}", server.host());
    let credential = Some(("forge", "Authorization", "Bearer "));
    fetcher(&patchbay, &format!("http://{}/", server.host()), credential, &[&host, "credential:forge"]);
    patchbay.grant("getter", &[&host, "credential:forge"]);
    let unknown = patchbay.line("/get");
    assert!(unknown.contains("[credentials.forge]"), "{unknown}");
    let table = format!("[credentials.forge]\norigin = \"http://{}\"\nenv = \"FORGE\"\n", server.host());
    patchbay.write("home/config/config.toml", table);
    let empty = patchbay.line("/get");
    assert!(empty.contains("FORGE") && empty.contains("credentials.json"), "{empty}");
    assert_eq!(server.requests().len(), 0);
}

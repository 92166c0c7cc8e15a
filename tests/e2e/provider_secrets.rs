//! A provider's key is sent to its own origin and appears nowhere else, even if the server echoes it.

use std::thread;

use patchbay_tests::{
    answers::json_lines,
    binary::{Patchbay, ran},
    format::{ANTHROPIC, FORMATS, Format, KEY, OPENAI, event_stream, truncated_event_stream},
    home::assert_in_no_file,
    server::{Server, Step},
};

/// The key of another provider.
const OTHER: &str = "0ther-s3ntinel/of+openai=";

fn base64(text: &str, alphabet: &[u8; 64]) -> String {
    let mut encoded = String::new();
    for part in text.as_bytes().chunks(3) {
        let bits = part.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for place in 0..=part.len() {
            encoded.push(alphabet[(bits >> (18 - 6 * place)) as usize & 63] as char);
        }
    }
    encoded
}

/// Returns the recognisable forms of `key`: plain, base64 and percent-encoded.
fn forms(key: &str) -> Vec<String> {
    const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let percent = |keep: &str| -> String {
        let one = |c: char| {
            if c.is_ascii_alphanumeric() || keep.contains(c) { c.to_string() } else { format!("%{:02X}", c as u8) }
        };
        key.chars().map(one).collect()
    };
    vec![key.to_owned(), base64(key, STANDARD), base64(key, URL), percent("-._~"), percent("")]
}

/// Asserts that no form of `key` is in `bytes`.
fn assert_key_absent(key: &str, bytes: &[u8], what: &str) {
    for form in forms(key) {
        let found = bytes.windows(form.len()).any(|window| window == form.as_bytes());
        assert!(!found, "{form} is in {what}");
    }
}

/// Returns the steps of a server that echoes the key, request by request.
fn echoes(format: &Format) -> Vec<Vec<Step>> {
    let whole = |bytes: Vec<u8>| vec![Step::Bytes(bytes)];
    let (half, rest) = KEY.split_at(11);
    let forms = forms(KEY);
    let escaped: String = KEY.chars().map(|c| format!("\\u{:04x}", c as u32)).collect();
    let said = format.answer_with(&["Your key is ", KEY, "."]);
    // Between two packets, in the middle of the key.
    let at = said.windows(KEY.len()).position(|window| window == KEY.as_bytes()).unwrap() + 7;
    let mut letters = vec!["Key: "];
    let each: Vec<String> = KEY.chars().map(String::from).collect();
    letters.extend(each.iter().map(String::as_str));
    let mut answers = vec![
        whole(said.clone()),
        vec![Step::Bytes(said[..at].to_vec()), Step::Pause(50), Step::Bytes(said[at..].to_vec())],
        // Between two events; one letter per event; escaped.
        whole(format.answer_with(&["Key: ", half, rest, "."])),
        whole(format.answer_with(&letters)),
        whole(format.answer_with(&["Key: ", &escaped])),
        whole(format.refusal(400, &format!("What is {KEY}?"), None)),
        whole(format.refusal(401, &format!("No such key: {}", forms[1]), None)),
        whole(format!("HTTP/1.1 400 {KEY}\r\nx-key: {KEY}\r\nx-request-id: {}\r\n\r\n{KEY}", forms[3]).into_bytes()),
        whole(format!("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/?key={}\r\n\r\n", forms[4]).into_bytes()),
        // An answer that breaks off after the key, and within it.
        whole(truncated_event_stream(&said[..at + KEY.len()])),
        whole(event_stream(&said[..at])),
        whole(event_stream(format!("data: {KEY}\n\n").as_bytes())),
    ];
    answers.extend(forms[1..].iter().map(|form| whole(format.answer_with(&["Key: ", form, "."]))));
    answers
}

#[test]
fn key_echoed_by_a_server_appears_nowhere() {
    thread::scope(|scope| {
        for format in &FORMATS {
            scope.spawn(move || assert_echoed_key_is_hidden(format));
        }
    });
}

fn assert_echoed_key_is_hidden(format: &Format) {
    let answers = echoes(format);
    let count = answers.len();
    let server = Server::scripted(move |request| {
        let number = request.rsplit_once("echo:").map_or("", |(_, rest)| rest);
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        // A request that failed before any text of an answer is retried.
        let number: usize = number[..end].parse().unwrap();
        answers[number].clone()
    });
    let patchbay = format.home(&server, "[exchange]\ntotal_ms = 120000\n");
    let model = format!("/model {}", format.model);
    // Compiles the adapter for the processes below.
    assert!(patchbay.line(&model).starts_with('✓'));
    // The responses 9, 10 and 11 break off, and the host repeats their requests for about 15 seconds. With four processes, no
    // process has two of them.
    let run = |first: usize| {
        let lines: Vec<_> = (first..count).step_by(4).map(|number| format!("echo:{number}")).collect();
        let all: Vec<_> = [model.as_str()].into_iter().chain(lines.iter().map(String::as_str)).collect();
        patchbay.run(&[&["exec", "--json", "--keep-going"], &all[..]].concat())
    };
    let runs = thread::scope(|scope| {
        let running = [0, 1, 2, 3].map(|first| scope.spawn(move || run(first)));
        running.map(|running| running.join().unwrap())
    });
    let replaced: usize = runs.iter().map(|ran| ran.out.matches("[secret]").count()).sum();
    assert!(replaced >= count, "{}: {runs:?}", format.provider);
    let session = patchbay.last_session();
    for arguments in [
        &["exec", "--session", &session, "--json", "/providers"][..],
        &["sessions", "list"],
        &["provider", "list"],
        &["journal", "--json"],
    ] {
        let shown = patchbay.run(arguments);
        assert_key_absent(KEY, format!("{}{}", shown.out, shown.err).as_bytes(), &format!("{arguments:?}"));
    }
    for ran in runs {
        assert_key_absent(KEY, format!("{}{}", ran.out, ran.err).as_bytes(), "the output");
    }
    assert_in_no_file(patchbay.folder(), &forms(KEY));
    // The key was sent only to its server, in its header, once in each request; no echo was sent back.
    assert!(server.requests().len() >= count);
    for request in server.requests() {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let header = format!("{}{KEY}", format.header).to_ascii_lowercase();
        assert!(head.lines().any(|line| line.to_ascii_lowercase() == header), "{head}");
        assert_eq!(head.matches(KEY).count(), 1, "{head}");
        assert_key_absent(KEY, body.as_bytes(), "the body of a request");
    }
}

#[test]
fn each_key_is_sent_only_to_its_provider() {
    let first = Server::scripted(|_| vec![Step::Bytes(ANTHROPIC.answer_with(&["Your key is ", KEY]))]);
    let second =
        Server::scripted(|_| vec![Step::Bytes(OPENAI.answer_with(&["Yours is ", OTHER, " and not ", "another"]))]);
    // A third provider names the variable of the first one.
    let canary = Server::echo();
    let thief = format!(
        "[providers.thief]\nadapter = \"anthropic\"\norigin = \"http://{}\"\nenv = \"ANTHROPIC_API_KEY\"\n",
        canary.host()
    );
    let mut patchbay = ANTHROPIC.home(&first, &format!("{}{thief}", OPENAI.table(&second)));
    patchbay.set(OPENAI.variable, OTHER);
    let (one, two) = (format!("/model {}", ANTHROPIC.model), format!("/model {}", OPENAI.model));
    let lines = ["/model thief:claude-x", &one, "Hello", &two, "And you?", &one, "Again"];
    let ran = patchbay.run(&[&["exec", "--json", "--keep-going"], &lines[..]].concat());
    let objects = json_lines(&ran.out);
    let refused = objects.iter().find(|object| object.get("line").is_some()).unwrap();
    assert_eq!(refused["code"], "provider_unusable", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("ANTHROPIC_API_KEY"), "{refused}");
    assert_eq!(canary.requests(), [] as [String; 0]);
    assert_eq!((first.requests().len(), second.requests().len()), (2, 1), "{ran:?}");
    for request in first.requests() {
        assert_key_absent(OTHER, request.as_bytes(), "a request to the first");
    }
    for request in second.requests() {
        assert_key_absent(KEY, request.as_bytes(), "a request to the second");
        assert!(request.contains(&format!("Bearer {OTHER}")), "{request}");
    }
    for key in [KEY, OTHER] {
        assert_key_absent(key, format!("{}{}", ran.out, ran.err).as_bytes(), "the output");
        assert_in_no_file(patchbay.folder(), &forms(key));
    }
}

#[test]
fn without_a_key_no_request_is_sent() {
    let server = Server::echo();
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", OPENAI.table(&server));
    let mut command = patchbay.command(&["exec", "--keep-going", "/model o3", "Hello", "/calc 1"]);
    let ran = ran(command.env_remove(OPENAI.variable).output().unwrap());
    assert_eq!(ran.code, Some(1));
    // The page of OpenAI has no keys for other servers.
    let words = "No credentials for openai. Set OPENAI_API_KEY or add to credentials.json\n";
    assert!(ran.err.starts_with(words) && !ran.err.contains("https://"), "{}", ran.err);
    assert!(ran.out.ends_with("1\n"), "{}", ran.out);
    assert_eq!(server.requests(), [] as [String; 0]);
}

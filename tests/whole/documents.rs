//! The documents' own examples, followed to the letter.

use std::{fs, path::Path, process::Command};

use patchbay_tests::binary::{self, Patchbay};

/// The fenced blocks of a document: the language and the text of each.
fn blocks(document: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(document)).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, text))) => *text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn the_first_skill_of_the_authors_guide_works() {
    let patchbay = Patchbay::new();
    let blocks = blocks("docs/skills.md");
    let of = |language: &str, beginning: &str| {
        let fits = |(of, text): &&(String, String)| of == language && text.starts_with(beginning);
        blocks
            .iter()
            .find(fits)
            .unwrap_or_else(|| panic!("docs/skills.md has no {language} block {beginning}"))
            .1
            .clone()
    };
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = of("toml", "[package]").replace("../patchbay", checkout.to_str().unwrap());
    patchbay.write("greet/SKILL.md", of("", "---\nname: greet"));
    patchbay.write("greet/Cargo.toml", manifest);
    patchbay.write("greet/src/lib.rs", of("rust", "use patchbay_sdk"));
    // Its dependencies are those of the bundled skills: they are on this machine, and built.
    fs::copy(checkout.join("plugins/Cargo.lock"), patchbay.folder().join("greet/Cargo.lock")).unwrap();
    let mut build = Command::new(binary::path());
    build.args(["plugin", "build", "greet"]).current_dir(patchbay.folder());
    build.env("CARGO_TARGET_DIR", checkout.join("plugins/target")).env("CARGO_NET_OFFLINE", "true");
    let built = binary::ran(build.output().unwrap());
    assert_eq!(built.code, Some(0), "{}{}", built.out, built.err);
    fs::create_dir_all(patchbay.home().join("config/skills")).unwrap();
    fs::copy(patchbay.folder().join("greet/greet.wasm"), patchbay.home().join("config/skills/greet.wasm")).unwrap();
    assert_eq!(patchbay.line("/greet Ada"), "Hello, Ada!");
    assert_eq!(patchbay.line("/skill greet {\"name\": \" \"}"), "Error: there is nobody to greet");
}

/// What the README shows of the terminal is what the lines come to.
#[test]
fn the_transcript_of_the_readme_is_real() {
    let blocks = blocks("README.md");
    let (_, transcript) = blocks.iter().find(|(_, text)| text.starts_with("$ make run")).unwrap();
    let patchbay = Patchbay::new();
    let mut shown = transcript.lines().skip_while(|line| !line.starts_with("> ")).peekable();
    let (mut lines, mut expected) = (Vec::new(), Vec::new());
    while let Some(line) = shown.next() {
        lines.push(line.strip_prefix("> ").unwrap());
        let mut answer = Vec::new();
        while let Some(line) = shown.next_if(|line| !line.starts_with("> ")) {
            answer.push(line);
        }
        expected.push(answer.join("\n"));
    }
    let answers = patchbay.answers(&lines);
    assert!(answers.len() > 5);
    for (answer, expected) in answers.iter().zip(&expected) {
        // The session's id is another one each time.
        let words = |text: &str| text.split("--session ").next().map(str::to_owned);
        assert_eq!(words(answer.message()), words(expected));
    }
}

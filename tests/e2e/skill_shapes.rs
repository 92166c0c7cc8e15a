//! Fifty skills in the forms that people publish: frontmatter with its quirks, and files. The texts are our own.

use std::{collections::BTreeSet, fs};

use patchbay_tests::binary::Patchbay;

/// Name, frontmatter and file paths. The extension of a path determines the file's contents.
type Shape = (&'static str, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    ("plain", "name: plain\ndescription: Does one thing.", &[]),
    ("no-name", "description: Has no name.", &["README.md"]),
    ("license-file", "name: license-file\ndescription: Licensed.\nlicense: Complete terms in LICENSE.txt", &["LICENSE.txt"]),
    ("apache", "name: apache\ndescription: Licensed.\nlicense: Apache-2.0", &["NOTICE", "LICENSE"]),
    ("colon", "name: colon\ndescription: Use when: a colon stands here", &["references/a.md"]),
    ("two-colons", "name: two-colons\ndescription: Covers A: one, B: two. Triggers: x, y", &[]),
    ("quoted", "name: quoted\ndescription: \"Says: \\\"hello\\\"\"", &[]),
    ("apostrophe", "name: apostrophe\ndescription: 'It''s quoted: once'", &["scripts/run.py"]),
    ("folded", "name: folded\ndescription: >\n  Goes over\n  two lines.", &["reference.md"]),
    ("literal", "name: literal\ndescription: |\n  First: line\n  second line", &["forms.md", "reference.md"]),
    ("wrapped", "name: wrapped\ndescription: Goes on\n  in the next line", &[]),
    ("emoji", "name: emoji\ndescription: 🚀 Launches. Größe und Ünïcödé", &["assets/größe.md"]),
    ("hash", "# a comment\nname: hash\ndescription: Has comments # here", &[]),
    ("crlf", "name: crlf\r\ndescription: Written on Windows\r", &["scripts/run.ps1", "scripts/run.bat"]),
    ("version-number", "name: version-number\nversion: 1.10\ndescription: A number", &["CHANGELOG.md"]),
    ("author", "name: author\ndescription: Has an author\nauthor: Ada\ntags: [a, b]\ncategory: docs", &[]),
    ("metadata", "name: metadata\ndescription: Nested\nmetadata:\n  author: Ada\n  version: \"2.0\"\n  tags: [x]", &[]),
    ("metadata-text", "name: metadata-text\ndescription: Odd\nmetadata: none", &[]),
    ("short", "name: short\ndescription: Long\nmetadata:\n  short-description: Short", &["agents/openai.yaml"]),
    ("tools-list", "name: tools-list\ndescription: Tools\nallowed-tools: [Read, Write, 'Bash(git:*)']", &["scripts/a.sh"]),
    ("tools-text", "name: tools-text\ndescription: Tools\nallowed-tools: Read, Bash(git add:*), Glob", &["scripts/a.sh"]),
    ("tools-lines", "name: tools-lines\ndescription: Tools\nallowed-tools:\n  - Read\n  - Grep", &[]),
    ("tools-blank", "name: tools-blank\ndescription: Tools\nallowed-tools: Bash(jq:*) Read", &["data/a.json"]),
    ("tools-none", "name: tools-none\ndescription: Tools\nallowed-tools:", &[]),
    ("people", "name: people\ndescription: For people\ndisable-model-invocation: true", &["references/a.md"]),
    ("models", "name: models\ndescription: For models\nuser-invocable: false", &["references/a.md"]),
    ("hint", "name: hint\ndescription: Takes words\nargument-hint: [file] [format]", &[]),
    ("hint-list", "name: hint-list\ndescription: Takes a word\nargument-hint: [issue]", &[]),
    ("when", "name: when\ndescription: Does it.\nwhen_to_use: On Mondays", &[]),
    ("model", "name: model\ndescription: Chooses\nmodel: inherit\neffort: high", &[]),
    ("forked", "name: forked\ndescription: Forks\ncontext: fork\nagent: Explore", &[]),
    ("hooked", "name: hooked\ndescription: Hooks\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks: [{type: command, command: x}]", &["scripts/hook.sh"]),
    ("paths", "name: paths\ndescription: Limits\npaths: [\"src/**/*.rs\"]\nshell: bash", &[]),
    ("compatible", "name: compatible\ndescription: Needs\ncompatibility: Requires git, docker and jq", &["assets/Dockerfile"]),
    ("compatible-list", "name: compatible-list\ndescription: Needs\ncompatibility: [claude-code, codex]", &[]),
    ("documents", "name: documents\ndescription: Forms", &["scripts/fill.py", "scripts/__init__.py", "ooxml/schemas/a/b.xsd", "forms.md"]),
    ("deep", "name: deep\ndescription: Deep", &["references/a/b/c/d/e/f/g.md", "references/a/b.md"]),
    ("fonts", "name: fonts\ndescription: Fonts", &["canvas-fonts/A-Regular.ttf", "canvas-fonts/A-OFL.txt"]),
    ("images", "name: images\ndescription: Images", &["assets/logo.png", "assets/photo.jpg", "assets/old.gif", "assets/new.webp"]),
    ("guide-pdf", "name: guide-pdf\ndescription: A guide", &["references/guide.pdf", "references/guide.md"]),
    ("archive", "name: archive\ndescription: Archives", &["assets/template.zip", "assets/deck.pptx"]),
    ("web-app", "name: web-app\ndescription: A page", &["templates/index.html", "templates/app.js", "templates/style.css", "examples/a.py"]),
    ("blanks", "name: blanks\ndescription: Names with blanks", &["assets/my file (1).md", "assets/a+b=c,d.txt"]),
    ("empty-files", "name: empty-files\ndescription: Empty", &["assets/.gitkeep", "references/todo.empty"]),
    ("leftovers", "name: leftovers\ndescription: Left", &[".DS_Store", "scripts/__pycache__/a.pyc", "a.md~", "node_modules/x/index.js", "kept.md"]),
    ("large", "name: large\ndescription: Large", &["data/table.large"]),
    ("many", "name: many\ndescription: Many", &["r/0.md", "r/1.md", "r/2.md", "r/3.md", "r/4.md", "r/5.md", "r/6.md", "r/7.md", "r/8.md", "r/9.md"]),
    ("upper", "name: upper\ndescription: USE THIS ALWAYS!!!", &["REFERENCE.MD", "Scripts/Run.PY"]),
    ("evals", "name: evals\ndescription: Evaluated", &["evals/evals.json", "evals/files/input.csv", "scripts/package.json", "pyproject.toml"]),
    ("workflow", "name: workflow\ndescription: Steps", &["workflows/one.yml", "workflows/two.yaml", "resources/schema.sql", "resources/icon.svg"]),
];

/// Returns the contents of a file.
fn contents(path: &str) -> Vec<u8> {
    match path.rsplit('.').next().unwrap_or_default() {
        "png" => b"\x89PNG\r\n\x1a\n\0".to_vec(),
        "jpg" => b"\xff\xd8\xff\xe0\0".to_vec(),
        "gif" => b"GIF89a\0".to_vec(),
        "webp" => b"RIFF\x01\0\0\0WEBPVP8 ".to_vec(),
        "pdf" => b"%PDF-1.7\n\xff\0".to_vec(),
        "ttf" => b"\0\x01\0\0\xff".to_vec(),
        "zip" | "pptx" => b"PK\x03\x04\0\xff".to_vec(),
        "empty" | "gitkeep" => Vec::new(),
        "large" => "a line of a large table\n".repeat(50_000).into_bytes(),
        _ => format!("The file {path}.\r\nIts end.").into_bytes(),
    }
}

/// Returns whether a file belongs to the skill.
fn is_listed(path: &str) -> bool {
    !path.ends_with('~')
        && !path.split('/').any(|name| name.starts_with('.') || name.starts_with("__py") || name == "node_modules")
}

/// Returns the expected text of a `skill_file` answer.
fn expected(skill: &str, path: &str) -> String {
    let media = match path.rsplit('.').next().unwrap_or_default() {
        "png" => "image/png",
        "jpg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "ttf" | "zip" | "pptx" => return "skill_file_binary".to_owned(),
        "empty" => return "\"text\":\"\"".to_owned(),
        "large" => return "\"next_offset\":16384".to_owned(),
        _ if skill == "people" => return "skill_not_for_models".to_owned(),
        _ => return format!("The file {path}.\\nIts end."),
    };
    format!("\"media_type\":\"{media}\"")
}

#[test]
fn fifty_shapes_load_list_and_serve_their_files() {
    let patchbay = Patchbay::quick();
    assert_eq!(SHAPES.iter().map(|(name, ..)| name).collect::<BTreeSet<_>>().len(), 50);
    for (name, frontmatter, files) in SHAPES {
        patchbay.write(
            &format!("home/config/skills/{name}/SKILL.md"),
            format!("---\n{frontmatter}\n---\n# {name}\n\nDo it.\n"),
        );
        for path in *files {
            patchbay.write(&format!("home/config/skills/{name}/{path}"), contents(path));
        }
    }
    let skills = patchbay.answers(&["/skills"]).remove(0);
    let (listed, diagnostics) = skills.message().split_once("\n\nDiagnostics:\n").unwrap();
    for (name, ..) in SHAPES {
        assert!(listed.lines().any(|line| line.starts_with(&format!("{name} - "))), "{name}: {listed}");
    }
    assert!(diagnostics.lines().all(|line| line.contains("[frontmatter_mended]")), "{diagnostics}");

    let session = patchbay.last_session();
    fs::remove_dir_all(patchbay.home().join("config/skills")).unwrap();
    let helps: Vec<String> = SHAPES.iter().map(|(name, ..)| format!("/help {name}")).collect();
    let helps: Vec<&str> = helps.iter().map(String::as_str).collect();
    for (answer, (name, _, files)) in patchbay.answers_in(&["--session", &session], &helps).iter().zip(SHAPES) {
        let shown: BTreeSet<&str> =
            answer.data()["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
        assert_eq!(shown, files.iter().copied().filter(|path| is_listed(path)).collect(), "{name}");
    }
    let files = SHAPES.iter().flat_map(|(name, _, files)| files.iter().map(move |path| (*name, *path)));
    let files: Vec<(&str, &str)> = files.filter(|(_, path)| is_listed(path)).collect();
    let calls: Vec<String> = files
        .iter()
        .map(|(name, path)| format!("call skill_file {{\"skill\": \"{name}\", \"path\": \"{path}\"}}"))
        .collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let answers = patchbay.answers_in(&["--session", &session], &calls);
    assert_eq!(answers.len(), files.len());
    for (answer, (name, path)) in answers.iter().zip(files) {
        let result = answer.rows().iter().find(|(kind, _)| *kind == "tool").map(|(_, text)| (*text).to_owned());
        let told = format!("{} {}", result.unwrap_or_default(), answer.message());
        let expected = expected(name, path);
        let unescaped = expected.replace("\\n", "\n");
        assert!(told.contains(&expected) || told.contains(&unescaped), "{name}/{path}: {expected}: {told}");
    }
}

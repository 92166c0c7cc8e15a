//! `patchbay plugin build` and `inspect` with provider adapters.

use std::{fs, path::Path};

use patchbay_tests::{
    adapter::Adapter,
    answers::json_lines,
    binary::{Patchbay, ran},
    guest::package,
};
use serde_json::json;

#[test]
fn build_without_skill_md_makes_an_adapter() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/core.wasm", Adapter::default().module());
    patchbay.write("workspace/scripted/README.md", "");
    let ran = patchbay.run(&["plugin", "build", "scripted", "--wasm", "core.wasm"]);
    let file = patchbay.workspace().join("scripted/scripted.wasm").canonicalize().unwrap();
    let built = fs::read(&file).unwrap();
    let words =
        format!("{}: {} bytes\nprovider scripted: Scripted\nmodel scripted-1: normal\n", file.display(), built.len());
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), &*words, ""));
    assert_eq!(built, Adapter::default().component(), "nothing is embedded");
    // `inspect` accepts the provider's folder as well.
    assert_eq!(patchbay.run(&["plugin", "inspect", "scripted"]).code, Some(0));

    // `build` validates the component that it wrote.
    patchbay.write("workspace/other/README.md", "");
    let ran = patchbay.run(&["plugin", "build", "other", "--wasm", "core.wasm"]);
    assert_eq!(ran.code, Some(1));
    let last = ran.out.lines().last().unwrap();
    let wrong = "wrong: [invalid_name] The adapter's name 'scripted' differs from its folder or file, 'other'.";
    assert_eq!(last, wrong);
}

/// The bundled adapters are built with the same command.
#[test]
fn rust_sources_become_an_adapter() {
    let patchbay = Patchbay::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/providers/demo");
    let mut command = patchbay.command(&["plugin", "build", folder.to_str().unwrap(), "--out", "demo.wasm"]);
    let ran = ran(command.env("CARGO_NET_OFFLINE", "true").output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let bundled = folder.join("../../dist/providers/demo.wasm");
    assert_eq!(
        fs::read(patchbay.workspace().join("demo.wasm")).unwrap(),
        fs::read(bundled).unwrap(),
        "run: make plugins"
    );
}

#[test]
fn inspect_describes_a_provider() {
    let patchbay = Patchbay::new();
    let adapter = Adapter::manifest(&json!({
        "model-prefixes": ["scripted-", "s3"],
        "models": [
            { "id": "scripted-1", "size": "small" },
            {
                "id": "scripted-2", "size": "large", "suggested-levels": ["none", "high"], "context-window": 200_000,
                "input-media": ["image/png", "application/pdf"], "deprecated": true,
            },
        ],
        "default-base-url": "https://api.scripted.example/v1",
        "credentials": [{
            "id": "scripted", "scheme": "api-key", "env": "SCRIPTED_API_KEY", "obtain-url": "https://scripted.example/keys",
        }],
        "extra": [{ "name": "api-label", "value": "Scripted \u{202e}API" }],
    }));
    let component = adapter.component();
    patchbay.write("workspace/scripted.wasm", &component);
    let json = patchbay.run(&["plugin", "inspect", "--json", "scripted.wasm"]);
    let [report] = &json_lines(&json.out)[..] else { panic!("{json:?}") };
    let (provider, credential) = (&report["provider"], &report["provider"]["credential"]);
    assert_eq!((&report["manifest"], &report["tools"], &report["problems"]), (&json!(null), &json!([]), &json!([])));
    assert_eq!((&provider["name"], &provider["models"][1]["id"]), (&json!("scripted"), &json!("scripted-2")));
    assert_eq!((&credential["id"], &credential["env"]), (&json!("scripted"), &json!("SCRIPTED_API_KEY")));

    let ran = patchbay.run(&["plugin", "inspect", "scripted.wasm"]);
    let expected = format!(
        "\
name            scripted
display_name    Scripted
version         1
prefixes        scripted-, s3
base_url        https://api.scripted.example/v1
credential      scripted (api-key)
variable        SCRIPTED_API_KEY
obtain_url      https://scripted.example/keys
extra api-label: Scripted API
size            {} bytes
digest          {}
imports         patchbay:provider/types@0.1.0
exports         patchbay:provider/adapter@0.1.0
model scripted-1: small
model scripted-2: large, none high, 200000 tokens, image/png application/pdf, deprecated
",
        component.len(),
        report["digest"].as_str().unwrap(),
    );
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), &*expected, ""));

    patchbay.write("workspace/scripted.wasm", Adapter::default().component());
    let plain = patchbay.run(&["plugin", "inspect", "scripted.wasm"]);
    let none = "base_url        (none)\ncredential      (none)\nvariable        (none)\nobtain_url      (none)\nsize";
    assert!(plain.out.contains(none), "{}", plain.out);
}

#[test]
fn inspect_reports_faults_of_a_provider() {
    let patchbay = Patchbay::new();
    let with = |changed: serde_json::Value| Adapter::manifest(&changed).component();
    let looping = Adapter { before_describe: "(loop $on (br $on))".into(), ..Adapter::default() };
    let trapping = Adapter { before_describe: "(unreachable)".into(), ..Adapter::default() };
    for (file, bytes, wrong) in [
        (
            "other.wasm",
            Adapter::default().component(),
            "[invalid_name] The adapter's name 'scripted' differs from its folder or file, 'other'.",
        ),
        (
            "scripted.wasm",
            with(json!({ "models": [{ "id": "a b", "size": "small" }] })),
            "[invalid_output] the component returned an invalid result: invalid model id 'a b': use 1 to 128 \
             printable ASCII \
             characters without white space.",
        ),
        ("scripted.wasm", looping.component(), "[limit_fuel] the call used up its fuel"),
        ("scripted.wasm", trapping.component(), "[trap] the component trapped"),
        (
            "scripted.wasm",
            package(Adapter::default().component(), "---\nname: scripted\n---\n"),
            "[invalid_component] this is a provider's adapter, not a skill; put it into the folder \
             'providers' of the configuration.",
        ),
    ] {
        patchbay.write(&format!("workspace/{file}"), bytes);
        let ran = patchbay.run(&["plugin", "inspect", file]);
        let found: Vec<_> = ran.out.lines().filter_map(|line| line.strip_prefix("wrong: ")).collect();
        let [found] = found[..] else { panic!("{ran:?}") };
        assert_eq!((ran.code, &*ran.err), (Some(1), ""));
        assert!(found.starts_with(wrong), "{found}");
    }
}

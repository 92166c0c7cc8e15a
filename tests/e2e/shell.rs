//! `patchbay completions` and `patchbay man`, which are generated from the definition of the command line.

use std::{io::Write as _, process::Stdio};

use patchbay_tests::binary::Patchbay;

/// Returns the subcommands in the help of `arguments`.
fn subcommands(patchbay: &Patchbay, arguments: &[&str]) -> Vec<String> {
    let help = patchbay.run(&[arguments, &["--help"]].concat()).out;
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let list = list.split("\n\n").next().unwrap();
    let lines = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Returns each subcommand of two levels, as its words.
fn all_subcommands(patchbay: &Patchbay) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for command in subcommands(patchbay, &[]) {
        let inner = subcommands(patchbay, &[&command]);
        all.push(vec![command.clone()]);
        all.extend(inner.into_iter().map(|inner| vec![command.clone(), inner]));
    }
    assert!(all.len() > 25 && all.contains(&vec!["sessions".to_owned(), "gc".to_owned()]), "{all:?}");
    all
}

#[test]
fn completions_and_manual_page_have_every_subcommand() {
    let patchbay = Patchbay::blank();
    let commands = all_subcommands(&patchbay);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = patchbay.run(&["completions", shell]);
        assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{shell}");
        for name in commands.iter().flatten() {
            assert!(ran.out.contains(name.as_str()), "{shell}: {name}");
        }
        assert!(ran.out.contains("continue"), "{shell}");
        // The internal subcommand is not offered.
        let mut words = ran.out.split(|c: char| !c.is_ascii_alphanumeric());
        assert!(!words.any(|word| word == "compile"), "{shell}");
    }
    assert_eq!(patchbay.run(&["completions", "tcsh"]).code, Some(2));
    let ran = patchbay.run(&["man"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    assert!(ran.out.contains("\n.TH PATCHBAY 1 "), "{}", ran.out);
    for words in commands {
        assert!(ran.out.contains(&format!("\n.SS patchbay {}\n", words.join(" "))), "{words:?}");
    }
    for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "VERSION"] {
        assert_eq!(ran.out.matches(&format!("\n.SH {heading}\n")).count(), 1, "{heading}");
    }
    assert!(!ran.out.contains("compile a component") && !ran.out.contains("patchbay compile"));
    assert!(!patchbay.home().exists(), "nothing is created");
}

#[test]
fn bash_completes_subcommands() {
    let patchbay = Patchbay::new();
    let script = patchbay.run(&["completions", "bash"]).out;
    let mut bash = std::process::Command::new("bash").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let ask =
        "COMP_WORDS=(patchbay sessions g); COMP_CWORD=2; _patchbay patchbay g sessions; echo \"${COMPREPLY[@]}\"\n";
    bash.stdin.take().unwrap().write_all(format!("{script}\n{ask}").as_bytes()).unwrap();
    let answer = bash.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(answer.stdout).unwrap(), "gc\n");
}

//! Tests of completion.

use std::{fs, sync::Arc};

use patchbay_sandbox::Compiler;
use patchbay_skill::BundledSkill;

use crate::{BundledSkills, Config, Host, Paths, Session};

const BUNDLED: &[BundledSkill] = &[
    BundledSkill::new("planner", b"---\nsummary: Makes plans\ncommand: plan\ninput_hint: goal\n---\n"),
    BundledSkill::new("player", b"---\ncommand: skim\n---\n"),
];

async fn session(home: &std::path::Path) -> Arc<Session> {
    let folder = |name: &str| home.join(name);
    let paths =
        Paths { config: folder("config"), data: folder("data"), cache: folder("cache"), state: folder("state") };
    for persona in ["config/agents/pirate", "workspace/.patchbay/agents/local", "workspace/.patchbay/agents/No Name"] {
        fs::create_dir_all(home.join(persona)).unwrap();
    }
    // No component is compiled in these tests.
    let compiler = Compiler { program: folder("none"), arguments: Vec::new(), keeps_functions: false };
    let config =
        Config { bundled: BundledSkills { skills: BUNDLED, ..Default::default() }, ..Config::new(paths, compiler) };
    Host::open(config).unwrap().new_session(&folder("workspace")).await.unwrap()
}

#[tokio::test]
async fn completion_offers_commands_skills_and_personas() {
    let home = tempfile::tempdir().unwrap();
    let session = session(home.path()).await;
    let complete = async |line: &str| {
        let found = session.complete(line).await;
        found.into_iter().map(|found| found.text).collect::<Vec<_>>()
    };
    for (line, expected) in [
        ("", &[][..]),
        ("s", &[]),
        (" /s", &[]),
        ("/s", &["/skills", "/skill", "/switch", "/skim"]),
        ("/skills", &["/skills"]),
        ("/S", &[]),
        ("/rls", &["/reload_skills"]),
        ("/skill lyr", &["player"]),
        ("/pl", &["/plan"]),
        ("/skill ", &["planner", "player"]),
        ("/skill plan", &["planner"]),
        ("/help  pla", &["planner", "player"]),
        ("/skill planner x", &[]),
        ("/tool ", &[]),
        ("/skills ", &[]),
        ("/nope ", &[]),
        ("/plan ", &[]),
        ("/agent ", &["default", "local", "pirate"]),
        ("/agent p", &["pirate"]),
    ] {
        assert_eq!(complete(line).await, expected, "{line:?}");
    }
    let everything = complete("/").await;
    assert_eq!(everything.len(), crate::specs().len() + 2, "{everything:?}");
}

#[tokio::test]
async fn suggestions_have_position_and_argument_flag() {
    let home = tempfile::tempdir().unwrap();
    let session = session(home.path()).await;
    let only = async |line: &str| {
        let [found] = <[_; 1]>::try_from(session.complete(line).await).unwrap();
        found
    };
    let plan = only("/pl").await;
    assert_eq!((plan.start, plan.summary.as_str(), plan.takes_argument), (0, "Makes plans", true));
    let skills = only("/skills").await;
    assert_eq!((skills.start, skills.takes_argument), (0, false));
    let planner = only("/skill  plann").await;
    assert_eq!((planner.start, planner.takes_argument), ("/skill  ".len(), true));
    assert!(!only("/help plann").await.takes_argument);
}

#[tokio::test]
async fn paths_are_completed_at_the_cursor() {
    let home = tempfile::tempdir().unwrap();
    let session = session(home.path()).await;
    fs::write(home.path().join("workspace/my notes.md"), "").unwrap();
    fs::write(home.path().join("workspace/notes.md"), "").unwrap();
    let text = "read @no and stop";
    let found = session.complete_at(text, "read @no".len()).await;
    let places: Vec<_> = found.iter().map(|found| (found.text.as_str(), found.start, found.end)).collect();
    assert_eq!(places, [("@notes.md", 5, 8), ("@\"my notes.md\"", 5, 8)]);
    assert!(found.iter().all(|found| found.takes_argument));
    // Nothing is completed elsewhere, and commands are completed only at their end.
    assert_eq!(session.complete_at(text, 2).await, []);
    assert_eq!(session.complete_at("/ski", 2).await, []);
    assert_eq!(session.complete_at("/ski\n", 5).await, []);
    assert_eq!(session.complete_at("/skills", 7).await, session.complete("/skills").await);
    assert_eq!(session.complete_at("/skill @not", 11).await[0].text, "notes.md");
}

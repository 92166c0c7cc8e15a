//! A thousand skills with twenty files each: all new, and all unchanged.

use std::{
    fs::{self, DirEntry},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::binary::Patchbay;

use crate::{
    nanoseconds,
    reload::{opened, reloaded, session},
    report::{Report, Samples, ms, ms_row},
};

const SKILLS: usize = 1_000;
const FILES: usize = 20;
const RELOADS: usize = 40;

pub fn measure(report: &mut Report) {
    report.section(
        "A thousand skills with files",
        "A thousand skills without components in the user's folder, each with a SKILL.md and twenty files of 2 KB in four \
         folders. *New*: the start of a session in a new home, which stores all files. *Unchanged*: the line \
         `/reload_skills` as a whole, and a new session of a host that was just opened. *A walk*: one thread lists the same \
         folders and asks for the size of each file, and does nothing else. Milliseconds.",
    );
    let patchbay = Patchbay::new();
    for skill in 0..SKILLS {
        let folder = patchbay.home().join(format!("config/skills/s{skill}"));
        for file in 0..FILES {
            let path = folder.join(format!("{}/{file}.md", ["references", "assets", "scripts", "templates"][file % 4]));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("File {file} of skill {skill}.\n").repeat(80)).unwrap();
        }
        let skill_md = format!("---\nname: s{skill}\ndescription: Skill number {skill}\n---\nRead references/0.md.\n");
        fs::write(folder.join("SKILL.md"), skill_md).unwrap();
    }
    let (start, (runtime, session)) = (Instant::now(), session(&patchbay));
    let new = nanoseconds(start);
    assert_eq!(session.snapshot().skills().len(), SKILLS);
    // Files that changed within the last two seconds are read again each time, because another change might go unnoticed.
    thread::sleep(Duration::from_secs(3));
    reloaded(&runtime, &session);
    let skills = patchbay.home().join("config/skills");
    let (mut walks, mut unchanged) = (Vec::new(), Vec::new());
    for _ in 0..RELOADS {
        let start = Instant::now();
        assert_eq!(walk(&skills), SKILLS * (FILES + 1));
        walks.push(nanoseconds(start));
        unchanged.push(reloaded(&runtime, &session));
    }
    let (walks, unchanged) = (Samples::new(walks), Samples::new(unchanged));
    drop((session, runtime));
    let fresh = Samples::new((0..RELOADS).map(|_| opened(&patchbay)).collect());
    report.table(
        &["", "p50", "p99"],
        &[
            vec!["a thousand new ones".to_owned(), ms(new), String::new()],
            ms_row("a walk", &walks),
            ms_row("`/reload_skills`, unchanged", &unchanged),
            ms_row("a new session in a new host, unchanged", &fresh),
        ],
    );
}

/// Counts the files below a folder.
fn walk(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let count = |entry: DirEntry| match entry.file_type().unwrap().is_dir() {
        true => walk(&entry.path()),
        false => usize::from(entry.metadata().unwrap().len() > 0),
    };
    entries.map(count).sum()
}

//! A thousand skills in a hundred packages, beside the same skills in the user's folder.

use std::{thread, time::Duration};

use patchbay_tests::binary::Patchbay;

use crate::{
    reload::{opened, reloaded, session},
    report::{Report, Samples, ms_row},
};

const PACKAGES: usize = 100;
const SKILLS: usize = 10;
const RELOADS: usize = 40;

pub fn measure(report: &mut Report) {
    report.section(
        "A thousand skills in packages",
        "A thousand skills of instructions with two more files each: ten in each of a hundred packages, and the same in the user's \
         folder. Each file of a package is compared with packages.lock. *Unchanged*: the line `/reload_skills` as a whole, and a new \
         session of a host that was just opened, in turn in the two homes. At most 1.1 times is the goal. Milliseconds.",
    );
    let (own, packaged) = (Patchbay::new(), Patchbay::new());
    for package in 0..PACKAGES {
        let folder = format!("workspace/p{package}");
        let schema = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";
        packaged.write(&format!("{folder}/plugin.json"), format!(r#"{{"$schema": "{schema}", "name": "p{package}"}}"#));
        for skill in 0..SKILLS {
            let name = format!("s{}", package * SKILLS + skill);
            let skill_md =
                format!("---\nname: {name}\ndescription: Skill {name} of a thousand\n---\nRead references/0.md.\n");
            for (file, text) in
                [("SKILL.md", &*skill_md), ("references/0.md", "Read on.\n"), ("assets/1.md", "The end.\n")]
            {
                own.write(&format!("home/config/skills/{name}/{file}"), text);
                packaged.write(&format!("{folder}/skills/{name}/{file}"), text);
            }
        }
        let added = packaged.run(&["plugin", "add", &format!("p{package}"), "--yes"]);
        assert_eq!(added.code, Some(0), "{}", added.err);
    }
    let sessions = [&own, &packaged].map(session);
    // Files that changed within the last two seconds are read again each time.
    thread::sleep(Duration::from_secs(3));
    for (runtime, session) in &sessions {
        assert_eq!(session.snapshot().skills().len(), PACKAGES * SKILLS);
        reloaded(runtime, session);
    }
    let mut reloads = [Vec::new(), Vec::new()];
    for _ in 0..RELOADS {
        for ((runtime, session), times) in sessions.iter().zip(&mut reloads) {
            times.push(reloaded(runtime, session));
        }
    }
    drop(sessions);
    let mut fresh = [Vec::new(), Vec::new()];
    for _ in 0..RELOADS {
        for (patchbay, times) in [&own, &packaged].into_iter().zip(&mut fresh) {
            times.push(opened(patchbay));
        }
    }
    let ([own_reloads, reloads], [own_fresh, fresh]) = (reloads.map(Samples::new), fresh.map(Samples::new));
    report.table(
        &["", "p50", "p99"],
        &[
            ms_row("`/reload_skills`, the user's folder", &own_reloads),
            ms_row("`/reload_skills`, packages", &reloads),
            ms_row("a new session in a new host, the user's folder", &own_fresh),
            ms_row("a new session in a new host, packages", &fresh),
        ],
    );
    let hundredths = |one: &Samples, other: &Samples| {
        (other.percentile(50) as f64 / one.percentile(50) as f64 * 100.0).round() / 100.0
    };
    eprintln!(
        "packages: reload {} times, new session {} times",
        hundredths(&own_reloads, &reloads),
        hundredths(&own_fresh, &fresh)
    );
}

//! A thousand skills in a hundred packages, compared with the same skills in the user's folder; and adding one large package.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::binary::Patchbay;

use crate::{
    nanoseconds,
    reload::{opened, reloaded, session},
    report::{Report, Samples, ms_row},
};

const PACKAGES: usize = 100;
const SKILLS: usize = 10;
const RELOADS: usize = 40;
/// Number of 1 MiB files in the large package. A package may have 64 MiB.
const LARGE_FILES: u64 = 63;
const ADDITIONS: usize = 5;

pub fn measure(report: &mut Report) {
    thousand_skills(report);
    large_package(report);
}

fn large_package(report: &mut Report) {
    report.section(
        "Adding a package of 64 MiB",
        "An Agent Plugin with one skill and 63 files of 1 MiB of random bytes. *Floor*: `sha256sum` of all files, and `cp -r` of the \
         folder. *Add*: `patchbay plugin add --yes` as a process. In turn, after a removal. At most twice the floor is the goal. \
         Milliseconds.",
    );
    let patchbay = Patchbay::new();
    patchbay.write("workspace/large/skills/large/SKILL.md", "---\ndescription: Large\n---\nDo it.\n");
    patchbay.write("workspace/large/.claude-plugin/plugin.json", r#"{"name": "large"}"#);
    let mut state = 1_u64;
    for number in 0..LARGE_FILES {
        // Xorshift, which makes every block different.
        let words = (0..1 << 17).flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        patchbay.write(&format!("workspace/large/data/{number}"), words.collect::<Vec<u8>>());
    }
    let timed = |program: &str, arguments: &[&str]| {
        let start = Instant::now();
        let ran = Command::new(program).args(arguments).current_dir(patchbay.workspace()).output().expect(program);
        assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
        nanoseconds(start)
    };
    let (mut floors, mut additions) = (Vec::new(), Vec::new());
    for round in 0..=ADDITIONS {
        let floor = timed("sh", &["-c", "find large -type f | xargs sha256sum > sums && cp -r large copy"]);
        timed("rm", &["-r", "copy", "sums"]);
        let start = Instant::now();
        let added = patchbay.run(&["plugin", "add", "large", "--yes"]);
        let elapsed = nanoseconds(start);
        assert_eq!(added.code, Some(0), "{}", added.err);
        assert_eq!(patchbay.run(&["plugin", "remove", "large"]).code, Some(0));
        // The first round is a warm-up.
        if round > 0 {
            floors.push(floor);
            additions.push(elapsed);
        }
    }
    let (floors, additions) = (Samples::new(floors), Samples::new(additions));
    report.table(
        &["", "p50", "p99"],
        &[ms_row("`sha256sum` and `cp -r`", &floors), ms_row("`plugin add --yes`", &additions)],
    );
    eprintln!("packages: 64 MiB are added in {} times the floor", hundredths(&floors, &additions));
}

/// Returns the ratio of the medians, in hundredths.
fn hundredths(one: &Samples, other: &Samples) -> f64 {
    (other.percentile(50) as f64 / one.percentile(50) as f64 * 100.0).round() / 100.0
}

fn thousand_skills(report: &mut Report) {
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
    // Files that changed within the last two seconds would be read again each time.
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
    eprintln!(
        "packages: reload {} times, new session {} times",
        hundredths(&own_reloads, &reloads),
        hundredths(&own_fresh, &fresh)
    );
}

//! A thousand skills: all of them new, all unchanged, and their memory.

use std::{
    fmt::Write as _,
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use patchbay_sandbox::Limits;
use patchbay_session::{Host, Session};
use patchbay_tests::{
    binary::{Patchbay, peak_kib},
    guest::{Guest, package},
    host::config,
};
use tokio::runtime::Runtime;
use wasmtime::Engine;

use crate::{
    nanoseconds,
    report::{Report, Samples, ms, ms_row},
};

const SKILLS: usize = 1_000;
const BYTES: usize = 100 << 10;
const RELOADS: usize = 40;

pub fn measure(report: &mut Report) {
    report.section(
        "A thousand skills",
        "A thousand component skills of 100 KiB each (four fifths of it code), all different, in the user's folder. \
         *New*: the start of a session in a new home. Each component is compiled in a child process, asked for its \
         tools and stored. For comparison, Cranelift alone compiles the same components on all cores of one process \
         and stores nothing. *Unchanged*: the line `/reload_skills` as a whole, and a new session of a host that was \
         just opened. Milliseconds.",
    );
    let patchbay = Patchbay::new();
    let components = components();
    let skills = patchbay.home().join("config/skills");
    fs::create_dir_all(&skills).unwrap();
    for (name, bytes) in &components {
        fs::write(skills.join(format!("{name}.wasm")), bytes).unwrap();
    }
    // Half of the work runs before and half after, which spreads other load on the machine over both.
    let (first, second) = components.split_at(SKILLS / 2);
    let mut alone = cranelift(first);
    let (start, (runtime, session)) = (Instant::now(), session(&patchbay));
    let new = nanoseconds(start);
    assert_eq!(session.snapshot().skills().len(), SKILLS);
    alone += cranelift(second);
    eprintln!("new: {} ms; Cranelift alone: {} ms", ms(new), ms(alone));
    // Files that changed within the last two seconds are read again each time, because another change might go unnoticed.
    thread::sleep(Duration::from_secs(3));
    runtime.block_on(async { session.submit("/reload_skills").await });
    drop((session, runtime));

    let fresh = Samples::new((0..RELOADS).map(|_| opened(&patchbay)).collect());
    let (runtime, session) = self::session(&patchbay);
    let reload = Samples::new((0..RELOADS).map(|_| reloaded(&runtime, &session)).collect());
    report.table(
        &["", "p50", "p99"],
        &[
            vec!["a thousand new ones".to_owned(), ms(new), String::new()],
            vec!["Cranelift alone, the same".to_owned(), ms(alone), String::new()],
            ms_row("`/reload_skills`, unchanged", &reload),
            ms_row("a new session in a new host, unchanged", &fresh),
        ],
    );
    drop((session, runtime));

    report.section(
        "The memory of a thousand skills",
        "The peak memory (VmHWM) of a process that opens a session, reloads its skills and calls one, in a home that \
         has compiled all of them: with the bundled skills only, and with a thousand more. MiB.",
    );
    let few = Patchbay::new();
    peak(&few, "/calc 1 + 1");
    report.table(
        &["", "peak"],
        &[
            vec!["the bundled skills".to_owned(), peak(&few, "/calc 1 + 1")],
            vec![format!("{SKILLS} more"), peak(&patchbay, "/skill s1 {}")],
        ],
    );
}

/// Returns the name and the bytes of each component.
fn components() -> Vec<(String, Vec<u8>)> {
    let plain = guest().component();
    let component = |n: usize| {
        let skill_md = format!(
            "---\nname: s{n}\nsummary: Skill number {n} of a thousand\nversion: 1.0.{n}\ninvocation_mode: tool_dispatch\n\
             command_tool: run\ninput_hint: any object\neligibility:\n  os: [linux, darwin]\ncapabilities:\n  \
             - {{name: kv, reason: keeps what it was told}}\n---\n# Skill {n}\n\n{}",
            "Use this skill when the person asks for what it does, and repeat its answer.\n".repeat(12)
        );
        let mut bytes = package(plain.clone(), &skill_md);
        let room = BYTES.checked_sub(bytes.len()).expect("the code leaves room");
        pad(&mut bytes, room);
        (format!("s{n}"), bytes)
    };
    (1..=SKILLS).map(component).collect()
}

/// Returns a guest with about eighty kilobytes of code.
fn guest() -> Guest {
    let mut functions = String::new();
    for function in 0..650_u64 {
        functions.push_str("\n(func (param $a i64) (result i64) (local $b i64) (local.get $a)");
        for step in 0..10 {
            let constant = (function * 31 + step).wrapping_mul(0x9e37_79b9) % 1_000_003;
            write!(
                functions,
                " (i64.const {constant}) i64.mul (local.tee $b) (i64.const {step}) i64.shr_u (local.get $b) i64.xor"
            )
            .unwrap();
        }
        functions.push(')');
    }
    Guest::default().with(&functions)
}

/// Returns a custom section of `room` bytes.
fn pad(component: &mut Vec<u8>, room: usize) {
    use wasm_encoder::ComponentSection as _;
    // The section's number, two lengths and its name.
    let data = vec![0; room - 12];
    wasm_encoder::CustomSection { name: "padding".into(), data: data.into() }.append_to_component(component);
}

/// Compiles all components on all cores and stores nothing.
fn cranelift(components: &[(String, Vec<u8>)]) -> u64 {
    let engine = Engine::new(&patchbay_sandbox::config(&Limits::default(), false)).unwrap();
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((_, bytes)) = components.get(next.fetch_add(1, Ordering::Relaxed)) {
                    engine.precompile_component(bytes).unwrap();
                }
            });
        }
    });
    nanoseconds(start)
}

/// Creates a session in a host that was just opened, in the same way as the binary.
pub(crate) fn session(patchbay: &Patchbay) -> (Runtime, Arc<Session>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let open = async || Host::open(config(&patchbay.home())).unwrap().new_session(&patchbay.workspace()).await;
    let session = runtime.block_on(open());
    (runtime, session.unwrap())
}

/// Returns how long a new session takes in a host that was just opened.
pub(crate) fn opened(patchbay: &Patchbay) -> u64 {
    let start = Instant::now();
    let opened = session(patchbay);
    let time = nanoseconds(start);
    drop(opened);
    time
}

/// Returns how long `/reload_skills` takes, which must find nothing new.
pub(crate) fn reloaded(runtime: &Runtime, session: &Arc<Session>) -> u64 {
    let start = Instant::now();
    let outcome = runtime.block_on(async { session.submit("/reload_skills").await });
    let time = nanoseconds(start);
    assert!(outcome.is_ok() && !outcome.message.contains('\n'), "{}", outcome.message);
    time
}

/// Returns the peak memory of a process that runs this line, in MiB.
fn peak(patchbay: &Patchbay, line: &str) -> String {
    let mut live = patchbay.live(&[]);
    assert_eq!(live.answer("/reload_skills").code(), "skills_reloaded");
    assert_eq!(live.answer(line).code(), "tool_result");
    let kilobytes = peak_kib(live.pid());
    live.wait_for_exit();
    (kilobytes >> 10).to_string()
}

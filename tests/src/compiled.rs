//! A home with compiled bundled components: [`into`]. Without it, nearly every test would compile the same components again.

use std::{fs, io, path::Path, sync::LazyLock};

use crate::{
    binary::Patchbay,
    format::{FORMATS, KEY},
    server::Server,
};

/// One line for each bundled component that tests often use. The model `demo` makes the tool calls that the line requests.
const LINES: [&str; 8] = [
    "hello",
    "/calc 1",
    "/code 1",
    "call files__list {}",
    "call grep__search {\"pattern\": \"a\"}",
    "call json__query {\"value\": {}, \"expression\": \"a\"}",
    "call notes__list {}",
    "call web__fetch {\"url\": \"http://127.0.0.1:1\"}",
];

static HOME: LazyLock<Patchbay> = LazyLock::new(|| {
    let mut patchbay = Patchbay::blank();
    let server = Server::always(FORMATS[0].refusal(400, "No.", None));
    let tables: String = FORMATS.iter().map(|format| format.table(&server)).collect();
    patchbay.write("home/config/config.toml", tables);
    for format in FORMATS {
        patchbay.set(format.variable, KEY);
    }
    let models = FORMATS.map(|format| format!("/model {}", format.model));
    let lines = LINES.into_iter().chain(models.iter().flat_map(|model| [model.as_str(), "hello"]));
    let ran = patchbay.exec(&lines.collect::<Vec<_>>());
    let compiled = fs::read_dir(patchbay.home().join("cache/aot")).map_or(0, Iterator::count);
    assert_eq!(compiled, LINES.len() + FORMATS.len(), "{ran:?}");
    let removed = patchbay.run(&["sessions", "rm", &patchbay.last_session()]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    // The journal outlives its session.
    patchbay.database("patchbay.db").execute("DELETE FROM calls", ()).expect("rows");
    patchbay
});

/// Adds the compiled components and their database rows to an empty home. The home has no session afterwards.
pub(crate) fn into(home: &Path) {
    copy_folder_by(&HOME.home().join("data"), &home.join("data"), &|from, to| fs::copy(from, to).map(drop));
    // Links, because compiled components are megabytes in size, and the host never changes one in place.
    copy_folder_by(&HOME.home().join("cache"), &home.join("cache"), &|from, to| fs::hard_link(from, to));
}

/// Copies a folder with its files and permissions.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    copy_folder_by(from, to, &|from, to| fs::copy(from, to).map(drop));
}

fn copy_folder_by(from: &Path, to: &Path, copy: &dyn Fn(&Path, &Path) -> io::Result<()>) {
    fs::create_dir_all(to).expect("a folder");
    let Ok(entries) = fs::read_dir(from) else { return };
    // The host ignores compiled components in a folder that other users can read.
    fs::set_permissions(to, fs::metadata(from).expect("a folder").permissions()).expect("its permissions");
    for entry in entries {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_folder_by(&path, &to, copy);
        } else {
            copy(&path, &to).expect("a copy");
        }
    }
}

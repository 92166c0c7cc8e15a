//! Adds advice to messages of the bundler, and source lines to messages of the SDK.

/// Modules of Node.js, by the first segment of their names, and the replacement to use in a plugin.
const INSTEAD: &[(&[&str], &str)] = &[
    (
        &["fs"],
        "the user's files: `import { workspace } from \"patchbay-sdk\"`, such as workspace.read(path); files beside \
         SKILL.md: skillFiles",
    ),
    (
        &["http", "https", "http2", "net", "tls", "dns", "dgram"],
        "`import { http } from \"patchbay-sdk\"`, such as http.get(url); it needs the capability http:HOST in SKILL.md",
    ),
    (
        &["crypto"],
        "for a unique id call.info().id of patchbay-sdk; for hashes a package in plain JavaScript, such as @noble/hashes; there is no \
         randomness",
    ),
    (&["path"], "workspace paths are strings with '/': path.split(\"/\"), or a package such as pathe"),
    (&["url", "querystring"], "the globals URL and URLSearchParams"),
    (&["buffer", "string_decoder"], "Uint8Array, and the globals TextEncoder and TextDecoder"),
    (&["util"], "console.log() for output, and TextEncoder and TextDecoder as globals"),
    (
        &["events", "stream", "timers", "async_hooks", "readline"],
        "plain calls: a plugin has no event loop, and host functions return their results directly",
    ),
    (
        &["child_process", "cluster", "worker_threads"],
        "the tools of other skills, with `import { tools } from \"patchbay-sdk\"`: a plugin starts no processes",
    ),
    (&["os", "process"], "the tool's input: a plugin knows nothing about the machine"),
    (&["assert", "test"], "throw new Error(…), or throw new Failure(kind, message)"),
];

/// Returns the bundler's messages. Its advice to build for another platform is replaced with advice that works in a plugin. `sdk`
/// is the content of the SDK's `index.js`.
pub(super) fn explained(printed: &str, sdk: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut module = None;
    for line in printed.lines() {
        if let Some((_, rest)) = line.split_once("[ERROR] Could not resolve \"") {
            module = rest.split('"').next().map(str::to_owned);
        }
        let advice = line.starts_with("  The package \"") || line.starts_with("  You can mark the path \"");
        match &module {
            Some(module) if advice => out.push(format!("  {}", instead(module))),
            _ => out.push(line.to_owned()),
        }
        if line.contains("[ERROR] No matching export in \"sdk/index.js\"") {
            out.push(format!("  patchbay-sdk exports {}", exports(sdk).join(", ")));
        }
    }
    out.join("\n")
}

/// Returns advice about a module that was not found.
fn instead(module: &str) -> String {
    let name = module.strip_prefix("node:").unwrap_or(module);
    let first = name.split('/').next().unwrap_or(name);
    if let Some((_, instead)) = INSTEAD.iter().find(|(names, _)| names.contains(&first)) {
        return format!("\"{module}\" is a module of Node.js, which a plugin does not have. Use {instead}.");
    }
    if module.starts_with("node:") {
        return format!("\"{module}\" is a module of Node.js, which a plugin does not have.");
    }
    if module.starts_with(['.', '/']) {
        return format!("File \"{module}\" not found: write the path relative to this file, with its extension.");
    }
    let package = match module.strip_prefix('@') {
        Some(scoped) => scoped.match_indices('/').nth(1).map_or(module, |(at, _)| &module[..=at]),
        None => first,
    };
    format!(
        "The package \"{package}\" is not installed: npm install {package}. It must not need Node.js or a browser: a plugin has no \
         files, network, clock or event loop of its own."
    )
}

/// Returns the names that the SDK's index exports.
fn exports(sdk: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for line in sdk.lines().filter_map(|line| line.strip_prefix("export ")) {
        if let Some(rest) = line.strip_prefix("* as ") {
            names.extend(rest.split_whitespace().next());
        } else if let Some((list, _)) = line.strip_prefix("{ ").and_then(|rest| rest.split_once(" }")) {
            names.extend(list.split(", "));
        }
    }
    names.sort_unstable();
    names
}

/// Returns an error of the evaluated bundle, prefixed with FILE:LINE: the line of the tool in the message, otherwise the first
/// place in the trace. `lines` are the message and the trace, already translated to the author's sources.
pub(super) fn located(lines: &[String], entry: &str, source: &str) -> String {
    let Some((message, trace)) = lines.split_first() else { return String::new() };
    let message = message.strip_prefix("Error: ").unwrap_or(message);
    let place = tool_line(message, source)
        .map(|line| format!("{entry}:{line}"))
        .or_else(|| trace.iter().find_map(|line| place(line)));
    let trace: Vec<&str> = trace.iter().map(String::as_str).filter(|line| !line.trim().is_empty()).collect();
    let trace = if trace.len() < 2 { String::new() } else { format!("\n{}", trace.join("\n")) };
    match place {
        Some(place) => format!("{place}: {message}{trace}"),
        None => format!("{message}{trace}"),
    }
}

/// Returns the line that declares the tool in a message `tool 'NAME': …`. The trace only points somewhere into the whole
/// declaration.
fn tool_line(message: &str, source: &str) -> Option<usize> {
    let (name, _) = message.strip_prefix("tool '")?.split_once('\'')?;
    let declares = |line: &str| {
        let line = line.trim_start().trim_start_matches(['"', '\'']);
        line.strip_prefix(name)
            .is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with([':', '(', ',']))
    };
    source.lines().position(declares).map(|index| index + 1)
}

/// Returns the FILE:LINE in a line of a trace.
fn place(line: &str) -> Option<String> {
    let place = line.trim_start().strip_prefix("at ")?.rsplit('(').next()?.trim_end_matches(')');
    let (_, number) = place.rsplit_once(':')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_for_plugins() {
        let printed = "✘ [ERROR] Could not resolve \"fs/promises\"\n\n  The package \"fs/promises\" wasn't found … \"--platform=node\"\n";
        let explained = explained(printed, "");
        assert!(explained.contains("workspace.read(path)") && !explained.contains("--platform"), "{explained}");
        assert!(instead("@a/b/c.js").contains("npm install @a/b."), "{}", instead("@a/b/c.js"));
        assert!(instead("lodash/get").contains("npm install lodash."));
        assert!(instead("./x").contains("File \"./x\" not found"));
        assert!(instead("node:v8").ends_with("which a plugin does not have."));
    }

    #[test]
    fn exports_of_the_sdk_are_listed() {
        let sdk = "import \"./a.js\";\nexport { s, Schema } from \"./schema.js\";\nexport * as kv from \"./kv.js\";\n";
        assert_eq!(exports(sdk), ["Schema", "kv", "s"]);
    }

    #[test]
    fn place_is_that_of_the_tool() {
        let source = "import a;\nexport const skill = defineSkill({\n  \"say-hello\": {\n";
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let named = lines(&["TypeError: x", "    at <anonymous> (skill.js:9)"]);
        assert_eq!(located(&named, "skill.js", source), "skill.js:9: TypeError: x");
        let tool = lines(&["Error: tool 'say-hello': no", "    at <anonymous> (skill.js:9)"]);
        assert_eq!(located(&tool, "skill.js", source), "skill.js:3: tool 'say-hello': no");
        assert_eq!(located(&lines(&["x"]), "skill.js", source), "x");
    }
}

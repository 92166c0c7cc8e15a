//! `patchbay journal fixture` and `patchbay sessions fixtures`: turn recorded calls into fixtures, for `journal` and `sessions`.

use std::{process::ExitCode, sync::Arc};

use patchbay_core::{CallId, Code, text};
use patchbay_fixture::RecordedFixture;
use patchbay_session::Host;
use patchbay_store::{JournalEntry, JournalRow};

use crate::{
    CliError,
    args::{CallFixture, FixtureOptions, SessionFixtures},
    out::{note, say},
    sessions,
};

/// Makes a fixture of one call.
pub(crate) async fn call(host: &Arc<Host>, arguments: &CallFixture) -> Result<ExitCode, CliError> {
    let id = text::excerpt(&arguments.call, 80);
    let entries = host.store().journal_calls(&arguments.call).await?;
    let entry = match &*entries {
        _ if arguments.call.is_empty() => {
            return Err(CliError::new(Code::InvalidArgs, "expected a call's number or id."));
        }
        [entry] => entry,
        [] => {
            let message = format!("the journal has no call '{id}'; 'patchbay journal' lists calls with their numbers.");
            return Err(CliError::new(Code::InvalidArgs, message));
        }
        _ => {
            return Err(CliError::new(
                Code::InvalidArgs,
                format!("several calls begin with '{id}'; write more of the id."),
            ));
        }
    };
    export(host, entry, &arguments.options).await?;
    written(&arguments.options);
    Ok(ExitCode::SUCCESS)
}

/// Makes fixtures of all recorded calls of a session. Calls that cannot be exported are reported, and the others are written.
pub(crate) async fn session(host: &Arc<Host>, arguments: &SessionFixtures) -> Result<ExitCode, CliError> {
    let session = sessions::find(host, &arguments.id).await?;
    let calls = host.store().recorded_calls(session).await?;
    if calls.is_empty() {
        let message = format!("session {} has no recorded calls. {HOW}", session.short());
        return Err(CliError::new(Code::InvalidArgs, message));
    }
    let mut failed = false;
    for call in calls {
        let entries = host.store().journal_calls(&call.to_string()).await?;
        for entry in &entries {
            if let Err(error) = export(host, entry, &arguments.options).await {
                note(&format!("Error: {error}"));
                failed = true;
            }
        }
    }
    written(&arguments.options);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

const HOW: &str = "Calls are recorded with --record, or with 'record = true' under [sessions] in config.toml.";

fn written(options: &FixtureOptions) {
    if options.out.is_none() {
        note("Note: nothing was written. To write it: add --out DIR");
    }
}

/// Lists the contents of a call's fixture, and writes it with `--out`.
async fn export(host: &Arc<Host>, entry: &JournalEntry, options: &FixtureOptions) -> Result<(), CliError> {
    let row = &entry.row;
    let name = text::clean_line(&format!("{}__{}", row.skill, row.tool));
    let refused = |why: String| CliError::new(Code::InvalidArgs, format!("call {} ({name}): {why}", entry.id));
    let Some(recording) = host.store().recording(row.call).await? else {
        let why = if row.root == "internal" || row.root == "outside" || row.skill.starts_with("mcp__") {
            "it is a tool of the host or of an MCP server, which runs outside the sandbox; only calls of skills' tools can become \
             fixtures."
                .to_owned()
        } else {
            format!("it was not recorded. {HOW}")
        };
        return Err(refused(why));
    };
    let mut fixture = RecordedFixture::read(&recording).map_err(|why| refused(format!("{why}.")))?;
    for digest in fixture.digests() {
        let content = host.store().recorded_content(digest).await?;
        let content = content.ok_or_else(|| refused(format!("its content {digest} is missing.")))?;
        fixture.add_content(digest, content);
    }
    options.redact.iter().for_each(|secret| fixture.redact(secret));
    let stem = stem(row);
    list(entry, &name, &stem, &mut fixture);
    let secrets = fixture.secrets(&host.scrub_all().await);
    if !secrets.is_empty() {
        let places: Vec<_> = secrets.iter().map(ToString::to_string).collect();
        return Err(refused(format!("{}. To replace a text: --redact TEXT", places.join("; "))));
    }
    if let Some(out) = &options.out {
        fixture.write(out, &stem).map_err(|error| refused(format!("{error}.")))?;
        say!("Wrote {}", text::clean_line(&out.join(format!("{stem}.json")).display().to_string()));
    }
    Ok(())
}

/// Returns the name of the fixture without its ending: the tool and the end of the call's id, which is random.
fn stem(row: &JournalRow) -> String {
    let id: String = CallId::to_string(&row.call);
    let tool: String =
        row.tool.chars().filter(|letter| letter.is_ascii_alphanumeric() || "_-".contains(*letter)).collect();
    format!("{tool}-{}", id.rsplit('-').next().unwrap_or_default())
}

fn list(entry: &JournalEntry, name: &str, stem: &str, fixture: &mut RecordedFixture) {
    let contents = fixture.contents(stem);
    say!("Call {}: {name}, {}", entry.id, entry.row.outcome());
    let listed = |what: &str, names: &[String]| {
        let names: Vec<_> = names.iter().map(|name| text::clean_line(name)).collect();
        if !names.is_empty() {
            say!("  {what}: {}", names.join(", "));
        }
    };
    listed("hosts", &contents.hosts);
    listed("files", &contents.files);
    let bodies =
        contents.bodies.iter().map(|(name, size)| format!("{name} ({} bytes)", text::with_commas(*size as u64)));
    listed("bodies", &bodies.collect::<Vec<_>>());
    for about in contents.notes {
        note(&format!("Note: {about}"));
    }
}

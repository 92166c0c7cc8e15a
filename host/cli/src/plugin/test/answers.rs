//! Tests the adapter of a provider: its cases, with the API's answers cut at every byte, and the rules for all adapters.

use std::sync::Arc;

use patchbay_core::{
    Code, Digest,
    completion::{Block, CompletionRequest, Message, Role},
};
use patchbay_fixture::{AnswerCase, AnswerCut, AnswerPlay, AnswerPlayer, FixtureError, FixtureFolder};
use patchbay_plugin::LocatedPlugin;
use patchbay_provider::ExchangeLimits;
use patchbay_sandbox::{Failure, Limits, Sandbox, adapter::AdapterManifest};
use patchbay_store::Store;

use super::{
    files,
    report::{CaseReport, PrintedReport, TestReport},
};
use crate::{CliError, args::PluginTest, compile::compiler, home::HomeDirs, plugin::call::NotCalled};

/// Limit of the positions, evenly spread, at which the bodies of one case are cut in two. Most answers have fewer bytes.
const CUTS: usize = 10_000;
/// Limit of the positions at which the connection breaks.
const BREAKS: usize = 200;

/// An adapter under test.
struct TestedAdapter {
    player: AnswerPlayer,
    manifest: AdapterManifest,
    /// The manifest of another instance.
    again: AdapterManifest,
}

pub(super) async fn test(
    test: &PluginTest,
    plugin: &LocatedPlugin,
    component: &std::path::Path,
    folder: Result<FixtureFolder, FixtureError>,
) -> Result<TestReport, NotCalled> {
    let filter = test.filter.as_deref();
    let matches =
        |case: &AnswerCase| filter.is_none_or(|text| case.name().contains(text) || case.model().contains(text));
    let written = match folder {
        Ok(folder) => Some((files(&folder, filter, |file| folder.answers(file), matches)?, folder)),
        Err(FixtureError::NoFixtures(_)) if test.conformance => None,
        Err(error) => return Err(error.into()),
    };
    let adapter = TestedAdapter::open(component).await?;
    let mut report = PrintedReport::new(test, plugin);
    let has_rules = test.conformance || filter.is_none();
    let mut broken = Vec::new();
    for (file, folder) in written.iter().flat_map(|(files, folder)| files.iter().map(move |file| (file, folder))) {
        for case in folder.answers(file)?.iter().filter(|case| matches(case)) {
            if has_rules {
                broken.extend(adapter.breaks(case).await);
            }
            if test.conformance {
                continue;
            }
            let (mut case_report, changed) = adapter.case(case).await;
            if let Some(play) = changed.filter(|_| test.update) {
                folder.update_answer(case, &play.events())?;
                case_report.updated = true;
            }
            report.add_case(case_report);
        }
    }
    if !has_rules {
        return Ok(report.end());
    }
    let is_same = adapter.manifest == adapter.again;
    let different = (!is_same).then(|| "a second instance describes itself differently".to_owned());
    report.add_rule("the manifest is the same in fresh instances", different.into_iter().collect());
    report.add_rule("a connection that breaks at any byte ends the answer, and what was emitted is kept", broken);
    report.add_rule("errors of the API have the kinds of the contract", adapter.failures().await);
    if written.is_none() {
        report.note("no fixtures found; only API errors were tried".to_owned());
    }
    Ok(report.end())
}

impl TestedAdapter {
    async fn open(component: &std::path::Path) -> Result<Self, NotCalled> {
        let home = HomeDirs::find()?;
        let store = Store::open(&home.paths.data)?;
        let bytes = std::fs::read(component).map_err(CliError::io(component))?;
        let digest = Digest::of(&bytes);
        if store.is_blocked(&digest).await? {
            let message = format!("the component is blocked. To unblock it: patchbay plugin unblock {digest}");
            return Err(CliError::new(Code::Blocked, message).into());
        }
        let limits = ExchangeLimits::default();
        let artefacts = home.paths.artefacts(&store, &compiler()?);
        let sandbox = Sandbox::new(limits.sandbox(&Limits::default())).with_artefacts(artefacts);
        let sandbox = Arc::new(sandbox.with_symbols(home.paths.symbols()));
        let failed =
            |failure: Failure| CliError::new(failure.code(), format!("the adapter cannot be used: {failure}."));
        let loaded = sandbox.load_adapter(digest, bytes).await.map_err(failed)?;
        let manifest = sandbox.describe_adapter(&loaded).await.map_err(failed)?;
        let again = sandbox.describe_adapter(&loaded).await.map_err(failed)?;
        Ok(Self { player: AnswerPlayer::new(sandbox, loaded, limits.budgets()), manifest, again })
    }

    /// Plays a case whole, cut in two at every byte, and byte by byte. Returns the report, and the play that `--update` can write
    /// into the fixture.
    async fn case(&self, case: &AnswerCase) -> (CaseReport, Option<AnswerPlay>) {
        let whole = match self.player.play(case, AnswerCut::Whole).await {
            Ok(play) => play,
            Err(failure) => return (CaseReport::of_answer(case, Some(failure.to_string()), Vec::new()), None),
        };
        let mut differences = whole.differences.clone();
        let events = case.event_difference(&whole.events());
        let can_update = differences.is_empty() && events.is_some();
        differences.extend(events);
        let problem = if differences.is_empty() { self.cuts(case, &whole).await } else { None };
        (CaseReport::of_answer(case, problem, differences), can_update.then_some(whole))
    }

    /// Describes the first cut that changes the events.
    async fn cuts(&self, case: &AnswerCase, whole: &AnswerPlay) -> Option<String> {
        let each_byte = std::iter::once((AnswerCut::EachByte, "byte by byte".to_owned()));
        let positions = positions(case, CUTS).map(|(exchange, at)| {
            (AnswerCut::At(exchange, at), format!("cut at byte {at} of answer {}", exchange + 1))
        });
        for (cut, how) in each_byte.chain(positions) {
            match self.player.play(case, cut).await {
                Ok(play) if play.emits_like(whole) => {}
                Ok(_) => return Some(format!("{how}, the answer gives other events")),
                Err(failure) => return Some(format!("{how}: {failure}")),
            }
        }
        None
    }

    /// Breaks the connection at many positions. The completion must end, and its events must be a prefix of the whole answer.
    async fn breaks(&self, case: &AnswerCase) -> Option<String> {
        // A case that fails without a break is already reported.
        let whole = self.player.play(case, AnswerCut::Whole).await.ok().filter(|whole| whole.differences.is_empty())?;
        for (exchange, at) in positions(case, BREAKS) {
            let how = format!("{}, broken at byte {at} of answer {}", case.name(), exchange + 1);
            match self.player.play(case, AnswerCut::Broken(exchange, at)).await {
                // The adapter sent another request, which has no recorded answer.
                Ok(play) if play.differences.iter().any(|difference| difference.what == "not_recorded") => {}
                Ok(play) if !play.has_ended => return Some(format!("{how}: the completion does not end")),
                Ok(play) if !play.is_beginning_of(&whole) => {
                    return Some(format!("{how}: the events are not a prefix of the whole answer"));
                }
                Ok(_) => {}
                Err(failure) => return Some(format!("{how}: {failure}")),
            }
        }
        None
    }

    /// Answers a small request with errors. Returns each error that the adapter maps to the wrong kind.
    async fn failures(&self) -> Vec<String> {
        let prefix = self.manifest.model_prefixes.first().map(|prefix| format!("{prefix}test"));
        let model = self.manifest.models.first().map(|model| model.id.clone()).or(prefix);
        let message = Message { role: Role::User, parts: vec![Block::Text("Hi".to_owned()).into()] };
        let request = CompletionRequest {
            model: model.unwrap_or_else(|| "test".to_owned()),
            messages: vec![message],
            ..CompletionRequest::default()
        };
        let mut problems = Vec::new();
        for (status, kind) in [(401, "authentication"), (429, "rate-limit"), (500, "server")] {
            for body in ["", "not json", "{}", "{\"error\":{\"message\":\"no\"}}"] {
                let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
                let case = AnswerCase::answered(request.clone(), status, headers, body);
                match self.player.play(&case, AnswerCut::Whole).await {
                    // The adapter sent no request, or a different one.
                    Ok(play) if !play.differences.is_empty() => {}
                    Ok(play) if play.failure_kind() == Some(kind) => {}
                    Ok(play) => {
                        let actual = play.failure_kind().unwrap_or("no failure");
                        problems.push(format!("status {status} with the body '{body}' gives {actual}, not {kind}"));
                    }
                    Err(failure) => problems.push(format!("status {status} with the body '{body}': {failure}")),
                }
            }
        }
        problems
    }
}

/// Returns at most `most` positions in the bodies of a case, evenly spread.
fn positions(case: &AnswerCase, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let sizes = case.body_sizes();
    let step = sizes.iter().sum::<usize>() / most + 1;
    sizes
        .into_iter()
        .enumerate()
        .flat_map(move |(exchange, size)| (0..=size).step_by(step).map(move |at| (exchange, at)))
}

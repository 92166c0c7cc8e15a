//! What tools a component has: asked once for each digest and world, and kept.

use std::{collections::BTreeMap, sync::Arc, thread};

use futures_util::{StreamExt as _, stream};
use patchbay_core::{Code, Digest, ToolSpec};
use patchbay_sandbox::{Failure, Sandbox, WORLD};
use patchbay_schema::{PatternBudget, RULES, Schema};
use patchbay_skill::{Answer, Changed, Component, Problem};
use patchbay_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::Tools;

/// What components answered.
#[derive(Debug, Default)]
pub struct Described {
    /// By the digest of the component.
    pub answers: BTreeMap<Digest, Answer>,
    /// Whether one that had to be asked changed before it could be. Its answer says so, and looking at its root again tells
    /// more.
    pub changed: bool,
}

/// An [`Answer`] as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kept {
    /// Tools whose schemas were accepted, and the number of the rules. Answers of older builds are not of this form.
    Judged { rules: u32, tools: Vec<ToolSpec> },
    Problem {
        code: Code,
        message: String,
        /// Under which host and limits: another one may judge otherwise.
        under: String,
    },
}

/// What a bundled component answers, as it stands beside it in the binary.
#[derive(Deserialize)]
struct Bundled {
    digest: Digest,
    tools: Vec<ToolSpec>,
}

pub(crate) fn bundled(json: &str) -> Option<(Digest, Arc<[ToolSpec]>)> {
    match serde_json::from_str(json) {
        Ok(Bundled { digest, tools }) => Some((digest, tools.into())),
        Err(error) => {
            tracing::error!("what a bundled component answers cannot be read: {error}");
            None
        }
    }
}

/// What asking a component for its tools gave.
pub struct Asked {
    /// What a snapshot has of it.
    pub answer: Answer,
    /// The failure of the sandbox, if there was one; `answer` is a problem then.
    pub failure: Option<Failure>,
}

/// Compiles a component and asks it for its tools. Loading a skill and inspecting one both do it here, so that they agree.
pub async fn ask_component(sandbox: &Arc<Sandbox>, digest: Digest, bytes: Vec<u8>) -> Asked {
    let described = match sandbox.load(digest, bytes).await {
        Ok(loaded) => sandbox.describe(&loaded).await,
        Err(failure) => Err(failure),
    };
    match described {
        Ok(tools) => Asked { answer: check_schemas(tools).await.map(Arc::from), failure: None },
        Err(failure) => {
            let message = match failure.code() {
                Code::InvalidComponent => format!("{failure}."),
                code => format!("Asked for its tools, it ended with {code}: {failure}."),
            };
            Asked { answer: Err(Problem::new(Code::InvalidComponent, message)), failure: Some(failure) }
        }
    }
}

/// Why a blocked component has no tools.
pub fn not_asked(component: &Digest) -> Problem {
    let message = format!(
        "The component is blocked, so that it was not asked for its tools. To lift it: patchbay plugin unblock {component}"
    );
    Problem::new(Code::Blocked, message)
}

impl Tools {
    /// What tools each of `components` has, or why it is none. Those that were asked before are neither run nor read again;
    /// the others are compiled and asked, as many at once as there are cores. `watch` hears how many of them are done, and
    /// how many there are: first 0, and nothing where there are none.
    ///
    /// # Errors
    /// The database.
    pub async fn describe(
        &self,
        components: impl IntoIterator<Item = &Component>,
        watch: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Described, StoreError> {
        let by_digest: BTreeMap<Digest, &Component> =
            components.into_iter().map(|component| (component.digest(), component)).collect();
        let (answers, unknown) = self.answers(by_digest.keys())?;
        let mut described = Described { answers, changed: false };
        let new: Vec<&Component> = unknown.iter().filter_map(|digest| by_digest.get(digest).copied()).collect();
        if !new.is_empty() {
            watch(0, new.len());
        }
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let asking: Vec<_> = new.iter().map(|component| self.ask(component)).collect();
        let mut asked = stream::iter(asking).buffer_unordered(cores);
        let mut done = 0;
        while let Some(asked) = asked.next().await {
            let (digest, answer) = asked?;
            let answer = answer.unwrap_or_else(|changed| {
                described.changed = true;
                Err(changed.into())
            });
            described.answers.insert(digest, answer);
            done += 1;
            watch(done, new.len());
        }
        self.held.note_answers(&described.answers);
        Ok(described)
    }

    /// What `components` answered before; `None` where one of them would have to be asked. None is run.
    ///
    /// # Errors
    /// The database.
    pub fn known(&self, components: &[Digest]) -> Result<Option<BTreeMap<Digest, Answer>>, StoreError> {
        let (mut answers, unknown) = self.answers(components.iter())?;
        for digest in unknown {
            if !self.store.is_blocked(&digest)? {
                return Ok(None);
            }
            answers.insert(digest, Err(not_asked(&digest)));
        }
        Ok(Some(answers))
    }

    /// The answers that are held or kept, and the components of which there are none.
    fn answers<'a>(
        &self,
        digests: impl Iterator<Item = &'a Digest> + Clone,
    ) -> Result<(BTreeMap<Digest, Answer>, Vec<Digest>), StoreError> {
        let mut answers = self.held.answers(digests.clone());
        for digest in digests.clone() {
            if let Some(tools) = self.bundled_answers.get(digest) {
                answers.insert(*digest, Ok(Arc::clone(tools)));
            }
        }
        let unknown: Vec<Digest> = digests.filter(|digest| !answers.contains_key(digest)).copied().collect();
        let mut new = Vec::new();
        for (digest, kept) in unknown.iter().zip(self.store.described(&unknown, WORLD)?) {
            match kept.and_then(|json| self.read_kept(digest, &json)) {
                Some(answer) => drop(answers.insert(*digest, answer)),
                None => new.push(*digest),
            }
        }
        Ok((answers, new))
    }

    /// Returns the kept answer, or `None` if the component must be asked again, as for an answer that was judged by other
    /// rules.
    fn read_kept(&self, digest: &Digest, json: &str) -> Option<Answer> {
        match serde_json::from_str(json) {
            Ok(Kept::Judged { rules, tools }) => (rules == RULES).then(|| Ok(tools.into())),
            Ok(Kept::Problem { code, message, under }) => {
                (under == self.conditions()).then_some(Err(Problem { code, message }))
            }
            Err(error) => {
                tracing::debug!(%digest, "a kept answer of another build is not used: {error}");
                None
            }
        }
    }

    /// Compiles a component and asks it.
    async fn ask(&self, component: &Component) -> Result<(Digest, Result<Answer, Changed>), StoreError> {
        let digest = component.digest();
        // Its answer may be known from before; its code does not run.
        if self.store.is_blocked(&digest)? {
            return Ok((digest, Ok(Err(not_asked(&digest)))));
        }
        let Ok(bytes) = self.bytes(component) else { return Ok((digest, Err(Changed))) };
        let Asked { answer, failure } = ask_component(&self.sandbox, digest, bytes).await;
        let own_fault = matches!(&answer, Err(problem) if problem.code == Code::Internal);
        if !own_fault && failure.is_none_or(|failure| failure.is_deterministic()) {
            let kept = match answer.clone() {
                Ok(tools) => Kept::Judged { rules: RULES, tools: tools.to_vec() },
                Err(Problem { code, message }) => Kept::Problem { code, message, under: self.conditions() },
            };
            // Texts and numbers alone: there is nothing that JSON could not hold.
            let json = serde_json::to_string(&kept).unwrap_or_default();
            self.store.keep_described(digest, WORLD, json).await?;
        }
        Ok((digest, Ok(answer)))
    }

    /// The bytes of a component: from the store, which has those of older snapshots, else from where it was found.
    fn bytes(&self, component: &Component) -> Result<Vec<u8>, Changed> {
        match self.store.component(&component.digest()) {
            Ok(bytes) => Ok(bytes),
            Err(_) => component.bytes().map(Vec::from),
        }
    }

    /// What a failure to describe depends on, besides the component.
    fn conditions(&self) -> String {
        format!("{} rules {RULES} {:?}", env!("CARGO_PKG_VERSION"), self.sandbox.limits())
    }
}

/// Checks that the host can enforce the input schema of each tool of one component, on a thread for work that blocks:
/// hostile schemas take some 50 ms.
///
/// # Errors
/// `invalid_component`, with the first tool whose schema is refused.
async fn check_schemas(tools: Vec<ToolSpec>) -> Result<Vec<ToolSpec>, Problem> {
    let check = move || {
        let mut patterns = PatternBudget::default();
        for tool in &tools {
            Schema::compile(&tool.input_schema, &mut patterns)
                .map_err(|error| Problem::new(Code::InvalidComponent, error.of_tool(tool.name.as_str())))?;
        }
        Ok(tools)
    };
    let checked = tokio::task::spawn_blocking(check).await;
    checked.unwrap_or_else(|error| {
        Err(Problem::new(Code::Internal, format!("The schemas could not be checked: {error}.")))
    })
}

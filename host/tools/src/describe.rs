//! What tools a component has: asked once for each digest and world, and kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    thread,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use patchbay_core::{Code, Digest, ToolSpec};
use patchbay_policy::Root;
use patchbay_sandbox::{Failure, Sandbox, WORLD};
use patchbay_schema::{PatternBudget, RULES, Schema};
use patchbay_skill::{Changed, Component, DescribedTools, Problem, root_limit};
use patchbay_store::StoreError;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::Tools;

/// What components answered.
#[derive(Debug, Default)]
pub struct Described {
    /// By the digest of the component.
    pub answers: BTreeMap<Digest, DescribedTools>,
    /// Whether one that had to be asked changed before it could be. Its answer says so, and looking at its root again tells
    /// more.
    pub changed: bool,
}

/// An [`DescribedTools`] as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredDescription {
    /// Tools whose schemas were accepted, and the number of the rules. Answers of older builds are not of this form.
    Judged { rules: u32, tools: Vec<ToolSpec> },
    Problem {
        code: Code,
        message: String,
        /// Under which host and limits: another one may judge otherwise.
        under: String,
        /// Whether it ran into a limit of time, which another try may not. It is tried again on request.
        #[serde(default)]
        limit: bool,
    },
}

/// Answers by component, and for each group the components that have none.
type Answers<'g, 'c> = (BTreeMap<Digest, DescribedTools>, Vec<(&'g Group<'c>, Vec<&'c Component>)>);

/// The components of one root, and what compiling the new ones may take.
pub struct Group<'a> {
    /// The root.
    pub root: Root,
    /// Its components, in the order of the skills' names.
    pub components: Vec<&'a Component>,
    /// Seconds that compiling and asking them may take in all (`limits.root.compile_s`).
    pub compile_s: u64,
    /// How many are compiled at once.
    pub at_once: usize,
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
    pub answer: DescribedTools,
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
    /// The tools of each of `components`, as [`Tools::describe_roots`] gives them, without a limit on the time in all.
    ///
    /// # Errors
    /// A database error.
    pub async fn describe(
        &self,
        components: impl IntoIterator<Item = &Component>,
        watch: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Described, StoreError> {
        let components = components.into_iter().collect();
        let at_once = thread::available_parallelism().map_or(1, usize::from);
        let group = Group { root: Root::User, components, compile_s: u64::from(u32::MAX), at_once };
        self.describe_roots(&[group], false, watch).await
    }

    /// The tools of each component of `groups`, or why it has none. Components that were asked before are neither run nor
    /// read again. The others are compiled and asked, one group after the other, in their order, until the time of their
    /// group is over; the one that goes over and those behind it have the problem `root_limit`.
    ///
    /// A failure by a limit of time is kept too, so that not every start repeats it: for this build and these limits, until
    /// `again` says that it is to be tried once more.
    ///
    /// `watch` gets how many new components are done, and how many there are: first 0, and nothing where there are none.
    ///
    /// # Errors
    /// A database error.
    pub async fn describe_roots(
        &self,
        groups: &[Group<'_>],
        again: bool,
        watch: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Described, StoreError> {
        let (answers, new) = self.answers(groups, again).await?;
        let mut described = Described { answers, changed: false };
        let total: usize = new.iter().map(|(_, wanted)| wanted.len()).sum();
        if total > 0 {
            watch(0, total);
        }
        let mut done = 0;
        for (group, wanted) in &new {
            // More than a century is no limit, and no sum of times overflows.
            let until = Instant::now() + Duration::from_secs(group.compile_s.min(u32::MAX.into()));
            let asking: Vec<_> = wanted.iter().map(|component| self.ask_until(component, group, until)).collect();
            let mut asked = stream::iter(asking).buffered(group.at_once.max(1));
            while let Some(asked) = asked.next().await {
                let (digest, answer) = asked?;
                let answer = answer.unwrap_or_else(|changed| {
                    described.changed = true;
                    Err(changed.into())
                });
                described.answers.insert(digest, answer);
                done += 1;
                watch(done, total);
            }
        }
        self.ready_cache.add_tools(&described.answers);
        Ok(described)
    }

    /// The answers of all components of `groups`; `None` where one of them would have to be asked. None is run.
    ///
    /// # Errors
    /// A database error.
    pub async fn known(&self, groups: &[Group<'_>]) -> Result<Option<BTreeMap<Digest, DescribedTools>>, StoreError> {
        let (mut answers, unknown) = self.answers(groups, false).await?;
        for component in unknown.iter().flat_map(|(_, components)| components) {
            let digest = component.digest();
            if !self.store.is_blocked(&digest).await? {
                return Ok(None);
            }
            answers.insert(digest, Err(not_asked(&digest)));
        }
        Ok(Some(answers))
    }

    /// The answers that are held or kept, and the components of which there are none. A component of two groups belongs to
    /// the first one.
    async fn answers<'g, 'c>(&self, groups: &'g [Group<'c>], again: bool) -> Result<Answers<'g, 'c>, StoreError> {
        let all: BTreeSet<Digest> =
            groups.iter().flat_map(|group| &group.components).map(|component| component.digest()).collect();
        let mut answers = self.ready_cache.tools(all.iter());
        for digest in &all {
            if let Some(tools) = self.bundled_answers.get(digest) {
                answers.insert(*digest, Ok(Arc::clone(tools)));
            }
        }
        let unknown: Vec<Digest> = all.iter().filter(|digest| !answers.contains_key(digest)).copied().collect();
        let mut kept: BTreeMap<Digest, String> = BTreeMap::new();
        for (digest, json) in unknown.iter().zip(self.store.described(&unknown, WORLD).await?) {
            kept.extend(json.map(|json| (*digest, json)));
        }
        let mut new = Vec::new();
        let mut seen: BTreeSet<Digest> = answers.keys().copied().collect();
        for group in groups {
            let mut wanted = Vec::new();
            for component in group.components.iter().filter(|component| seen.insert(component.digest())) {
                let digest = component.digest();
                match kept.get(&digest).and_then(|json| self.read_kept(&digest, json, group, again)) {
                    Some(answer) => drop(answers.insert(digest, answer)),
                    None => wanted.push(*component),
                }
            }
            new.push((group, wanted));
        }
        Ok((answers, new))
    }

    /// Returns the kept answer, or `None` if the component must be asked again, as for an answer that was judged by other
    /// rules.
    fn read_kept(&self, digest: &Digest, json: &str, group: &Group<'_>, again: bool) -> Option<DescribedTools> {
        match serde_json::from_str(json) {
            Ok(StoredDescription::Judged { rules, tools }) => (rules == RULES).then(|| Ok(tools.into())),
            Ok(StoredDescription::Problem { limit: true, .. }) if again => None,
            Ok(StoredDescription::Problem { code, message, under, limit }) => {
                let conditions = if limit { self.limit_conditions(group) } else { self.conditions() };
                (under == conditions).then_some(Err(Problem { code, message }))
            }
            Err(error) => {
                tracing::debug!(%digest, "a kept answer of another build is not used: {error}");
                None
            }
        }
    }

    /// Compiles a component and asks it, within the time of its group.
    async fn ask_until(
        &self,
        component: &Component,
        group: &Group<'_>,
        until: Instant,
    ) -> Result<(Digest, Result<DescribedTools, Changed>), StoreError> {
        if Instant::now() < until
            && let Ok(asked) = tokio::time::timeout_at(until, self.ask(component, group)).await
        {
            return asked;
        }
        let digest = component.digest();
        let problem = root_limit(group.root, "compile_s", group.compile_s);
        self.keep_problem(digest, &problem, self.limit_conditions(group), true).await?;
        Ok((digest, Ok(Err(problem))))
    }

    /// Compiles a component and asks it.
    async fn ask(
        &self,
        component: &Component,
        group: &Group<'_>,
    ) -> Result<(Digest, Result<DescribedTools, Changed>), StoreError> {
        let digest = component.digest();
        // Its answer may be known from before; its code does not run.
        if self.store.is_blocked(&digest).await? {
            return Ok((digest, Ok(Err(not_asked(&digest)))));
        }
        let Ok(bytes) = self.bytes(component).await else { return Ok((digest, Err(Changed))) };
        let Asked { mut answer, failure } = ask_component(&self.sandbox, digest, bytes).await;
        let own_fault = matches!(&answer, Err(problem) if problem.code == Code::Internal);
        let limit =
            failure.as_ref().is_some_and(|failure| matches!(failure.code(), Code::LimitCompile | Code::LimitTime));
        match &mut answer {
            Ok(tools) => {
                let kept = StoredDescription::Judged { rules: RULES, tools: tools.to_vec() };
                // Texts and numbers alone: there is nothing that JSON could not hold.
                let json = serde_json::to_string(&kept).unwrap_or_default();
                self.store.keep_described(digest, WORLD, json).await?;
            }
            Err(problem) if limit => {
                problem.message.push_str(" /reload_skills tries again.");
                self.keep_problem(digest, problem, self.limit_conditions(group), true).await?;
            }
            Err(problem) if !own_fault && failure.is_none_or(|failure| failure.is_deterministic()) => {
                self.keep_problem(digest, problem, self.conditions(), false).await?;
            }
            Err(_) => {}
        }
        Ok((digest, Ok(answer)))
    }

    async fn keep_problem(
        &self,
        digest: Digest,
        problem: &Problem,
        under: String,
        limit: bool,
    ) -> Result<(), StoreError> {
        let Problem { code, message } = problem.clone();
        let json =
            serde_json::to_string(&StoredDescription::Problem { code, message, under, limit }).unwrap_or_default();
        self.store.keep_described(digest, WORLD, json).await
    }

    /// The bytes of a component: from the store, which has those of older snapshots, else from where it was found.
    async fn bytes(&self, component: &Component) -> Result<Vec<u8>, Changed> {
        match self.store.component(&component.digest()).await {
            Ok(bytes) => Ok(bytes),
            Err(_) => component.bytes().map(Vec::from),
        }
    }

    /// What a failure to describe depends on, besides the component.
    fn conditions(&self) -> String {
        format!("{} rules {RULES} {:?}", env!("CARGO_PKG_VERSION"), self.sandbox.limits())
    }

    /// What a failure by a limit of time depends on.
    fn limit_conditions(&self, group: &Group<'_>) -> String {
        format!("{} compile_s={}", self.conditions(), group.compile_s)
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

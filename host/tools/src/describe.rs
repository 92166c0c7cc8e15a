//! Asks components which tools they have, once for each digest and world, and stores the answers. `session` calls it when
//! it builds a snapshot.

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

/// The tools of the described components.
#[derive(Debug, Default)]
pub struct Described {
    /// The tools, or the problem, by digest of the component.
    pub answers: BTreeMap<Digest, DescribedTools>,
    /// Whether a component's file changed before it could be asked. Its answer is then a problem, and scanning its root again reads
    /// the new file.
    pub changed: bool,
}

/// The stored form of [`DescribedTools`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredDescription {
    /// Tools whose schemas were accepted, and the version of the rules. Older builds stored answers in another form.
    Judged { rules: u32, tools: Vec<ToolSpec> },
    Problem {
        code: Code,
        message: String,
        /// The build and the limits that the problem depends on. Under others, the component is asked again.
        under: String,
        /// Whether a time limit was exceeded. Another try can succeed, but is only made on request.
        #[serde(default)]
        limit: bool,
    },
}

/// Answers by digest, and for each group the components without one.
type Answers<'g, 'c> = (BTreeMap<Digest, DescribedTools>, Vec<(&'g Group<'c>, Vec<&'c Component>)>);

/// The components of one root, with the limits for compiling new ones.
pub struct Group<'a> {
    /// The root that the skills belong to.
    pub root: Root,
    /// The root's components, sorted by skill name.
    pub components: Vec<&'a Component>,
    /// Maximum time in seconds for compiling and asking all of them (`limits.root.compile_s`).
    pub compile_s: u64,
    /// Number of components compiled concurrently.
    pub at_once: usize,
}

/// The answer of a bundled component, which is stored beside it in the binary.
#[derive(Deserialize)]
struct Bundled {
    digest: Digest,
    tools: Vec<ToolSpec>,
}

pub(crate) fn bundled(json: &str) -> Option<(Digest, Arc<[ToolSpec]>)> {
    match serde_json::from_str(json) {
        Ok(Bundled { digest, tools }) => Some((digest, tools.into())),
        Err(error) => {
            tracing::error!("cannot read the description of a bundled component: {error}");
            None
        }
    }
}

/// The result of asking a component for its tools.
pub struct DescribeOutcome {
    /// The tools, or the problem that a snapshot shows.
    pub answer: DescribedTools,
    /// The failure of the sandbox, if any. In this case, `answer` is a problem.
    pub failure: Option<Failure>,
}

/// Compiles a component and asks it for its tools. Loading and inspecting a skill both use it, and therefore agree.
pub async fn describe_component(sandbox: &Arc<Sandbox>, digest: Digest, bytes: Vec<u8>) -> DescribeOutcome {
    let described = match sandbox.load(digest, bytes).await {
        Ok(loaded) => sandbox.describe(&loaded).await,
        Err(failure) => Err(failure),
    };
    match described {
        Ok(tools) => DescribeOutcome { answer: check_schemas(tools).await.map(Arc::from), failure: None },
        Err(failure) => {
            let (code, message) = match failure.code() {
                code @ (Code::InvalidComponent | Code::LimitCompile) => (code, format!("{failure}.")),
                code => (Code::InvalidComponent, format!("Listing its tools failed with {code}: {failure}.")),
            };
            DescribeOutcome { answer: Err(Problem::new(code, message)), failure: Some(failure) }
        }
    }
}

/// Returns the problem of a blocked component, which has no tools.
pub fn blocked_problem(component: &Digest) -> Problem {
    let message = format!(
        "The component is blocked, so its tools are unknown. To unblock it: patchbay plugin unblock {component}"
    );
    Problem::new(Code::Blocked, message)
}

impl Tools {
    /// Returns the tools of each of `components`, like [`Tools::describe_roots`] without a limit on the total time.
    ///
    /// # Errors
    /// The database could not be read or written.
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

    /// Returns the tools of each component of `groups`, or why it has none. Stored answers are used without reading or running the
    /// component. The other components are compiled and asked, group by group in order, until the group's time is over. The
    /// component that exceeds it and all later ones have the problem `root_limit`.
    ///
    /// Failures caused by a time limit are stored too, for this build and these limits, because every start would otherwise repeat
    /// them. `again` retries them.
    ///
    /// `watch` receives the number of new components that are done and their total, starting with 0; it
    /// is not called if there are none.
    ///
    /// # Errors
    /// The database could not be read or written.
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
            // A bound of a century has the same effect as no limit and cannot overflow.
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

    /// Returns the answers for all components of `groups`; `None` if one of them must be asked. No component runs.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn known(&self, groups: &[Group<'_>]) -> Result<Option<BTreeMap<Digest, DescribedTools>>, StoreError> {
        let (mut answers, unknown) = self.answers(groups, false).await?;
        for component in unknown.iter().flat_map(|(_, components)| components) {
            let digest = component.digest();
            if !self.store.is_blocked(&digest).await? {
                return Ok(None);
            }
            answers.insert(digest, Err(blocked_problem(&digest)));
        }
        Ok(Some(answers))
    }

    /// Returns the cached and stored answers, and the components without one. A component in two groups belongs to the first.
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

    /// Returns the stored answer; `None` if the component must be asked again, for example because it was accepted under other
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
                tracing::debug!(%digest, "a stored description of another build is not used: {error}");
                None
            }
        }
    }

    /// Compiles and asks a component within the time of its group.
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

    /// Compiles and asks a component.
    async fn ask(
        &self,
        component: &Component,
        group: &Group<'_>,
    ) -> Result<(Digest, Result<DescribedTools, Changed>), StoreError> {
        let digest = component.digest();
        // The code of a blocked component must not run.
        if self.store.is_blocked(&digest).await? {
            return Ok((digest, Ok(Err(blocked_problem(&digest)))));
        }
        let Ok(bytes) = self.bytes(component).await else { return Ok((digest, Err(Changed))) };
        let DescribeOutcome { mut answer, failure } = describe_component(&self.sandbox, digest, bytes).await;
        let own_fault = matches!(&answer, Err(problem) if problem.code == Code::Internal);
        let limit =
            failure.as_ref().is_some_and(|failure| matches!(failure.code(), Code::LimitCompile | Code::LimitTime));
        match &mut answer {
            Ok(tools) => {
                let kept = StoredDescription::Judged { rules: RULES, tools: tools.to_vec() };
                // Contains only texts and numbers, which JSON can represent.
                let json = serde_json::to_string(&kept).unwrap_or_default();
                self.store.keep_described(digest, WORLD, json).await?;
            }
            Err(problem) if limit => {
                problem.message.push_str(" To try again: /reload_skills");
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

    /// Returns the bytes of a component: from the store if it has them, otherwise from the file.
    async fn bytes(&self, component: &Component) -> Result<Vec<u8>, Changed> {
        match self.store.component(&component.digest()).await {
            Ok(bytes) => Ok(bytes),
            Err(_) => component.bytes().map(Vec::from),
        }
    }

    /// Returns the conditions, other than the component, that a failure to describe depends on.
    fn conditions(&self) -> String {
        format!("{} rules {RULES} {:?}", env!("CARGO_PKG_VERSION"), self.sandbox.limits())
    }

    /// Returns the conditions that a failure caused by a time limit depends on.
    fn limit_conditions(&self, group: &Group<'_>) -> String {
        format!("{} compile_s={}", self.conditions(), group.compile_s)
    }
}

/// Checks that the host can enforce the input schema of each tool of one component. Runs on a thread for blocking work:
/// hostile schemas take about 50 ms.
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

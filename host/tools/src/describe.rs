//! What tools a component has: asked once for each digest and world, and kept.

use std::{collections::BTreeMap, thread};

use futures_util::{StreamExt as _, stream};
use patchbay_core::{Code, Digest, ToolSpec};
use patchbay_sandbox::WORLD;
use patchbay_skill::{Component, Problem};
use patchbay_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::{Tools, schema};

/// What tools a component has, or why it is none.
pub type Answer = Result<Vec<ToolSpec>, Problem>;

/// An [`Answer`] as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kept {
    Tools(Vec<ToolSpec>),
    Problem {
        code: Code,
        message: String,
        /// Under which host and limits: another one may judge otherwise.
        under: String,
    },
}

impl Tools {
    /// What tools each of `components` has, or why it is none. Those that were asked before are not run again.
    ///
    /// # Errors
    /// The database.
    pub async fn describe(&self, components: Vec<Component>) -> Result<BTreeMap<Digest, Answer>, StoreError> {
        let by_digest: BTreeMap<Digest, Component> =
            components.into_iter().map(|component| (component.digest, component)).collect();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let answers = stream::iter(by_digest.into_values().map(|component| async move {
            let digest = component.digest;
            self.describe_one(component).await.map(|answer| (digest, answer))
        }));
        let answers: Vec<_> = answers.buffer_unordered(cores).collect().await;
        answers.into_iter().collect()
    }

    async fn describe_one(&self, component: Component) -> Result<Answer, StoreError> {
        let Component { digest, bytes } = component;
        if let Some(json) = self.store.described(&digest, WORLD)? {
            match serde_json::from_str(&json) {
                Ok(Kept::Tools(tools)) => return Ok(Ok(tools)),
                Ok(Kept::Problem { code, message, under }) if under == self.conditions() => {
                    return Ok(Err(Problem { code, message }));
                }
                Ok(Kept::Problem { .. }) => {}
                // Another version's words: ask again.
                Err(error) => tracing::warn!(%digest, "a kept answer cannot be read: {error}"),
            }
        }
        // Its answer may be known from before; its code does not run.
        if self.store.is_blocked(&digest)? {
            let message = format!(
                "The component is blocked, so that it was not asked for its tools. To lift it: patchbay plugin unblock {digest}"
            );
            return Ok(Err(Problem::new(Code::Blocked, message)));
        }
        let described = match self.sandbox.load(digest, bytes.to_vec()).await {
            Ok(loaded) => self.sandbox.describe(&loaded).await,
            Err(failure) => Err(failure),
        };
        let (answer, keep) = match described {
            Ok(tools) => (check_schemas(tools), true),
            Err(failure) => {
                let message = match failure.code() {
                    Code::InvalidComponent => format!("{failure}."),
                    code => format!("Asked for its tools, it ended with {code}: {failure}."),
                };
                (Err(Problem::new(Code::InvalidComponent, message)), failure.is_deterministic())
            }
        };
        if keep {
            let kept = match answer.clone() {
                Ok(tools) => Kept::Tools(tools),
                Err(Problem { code, message }) => Kept::Problem { code, message, under: self.conditions() },
            };
            // Texts and numbers alone: there is nothing that JSON could not hold.
            let json = serde_json::to_string(&kept).unwrap_or_default();
            self.store.keep_described(digest, WORLD, json).await?;
        }
        Ok(answer)
    }
}

impl Tools {
    /// What a failure to describe depends on, besides the component.
    fn conditions(&self) -> String {
        format!("{} {:?}", env!("CARGO_PKG_VERSION"), self.sandbox.limits())
    }
}

/// Checks that the input schema of each tool is a schema of an object that the host can enforce.
///
/// # Errors
/// `invalid_component`, with the first tool whose schema is not.
pub fn check_schemas(tools: Vec<ToolSpec>) -> Answer {
    for tool in &tools {
        if let Err(problem) = schema::compile(&tool.input_schema) {
            let message = format!("The input schema of tool '{}' is no schema of an object: {problem}.", tool.name);
            return Err(Problem::new(Code::InvalidComponent, message));
        }
    }
    Ok(tools)
}

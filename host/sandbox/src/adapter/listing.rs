//! A listing in progress: one adapter instance that requests the list of models from its API, step by step. Also the facts that an
//! adapter reports about one model. `provider` uses both for the catalogue.

use std::sync::Arc;

use patchbay_core::text;
use wasmtime::Store;

use super::{
    Action, Budgets, Input, LoadedAdapter,
    manifest::is_model_id,
    stepped::SteppedInstance,
    wire,
    world::{AdapterGuest, AdapterPre},
};
use crate::{
    Failure, LogSink, Sandbox,
    bindings::{
        adapter::patchbay::provider::types as wit,
        optional::exports::patchbay::provider::catalogue::{self, ListingAction as WitListingAction},
    },
    state::GuestState,
};

/// Largest size in bytes of the facts of one model.
pub const FACTS_BYTES: usize = 8 << 10;
/// Length limit of a warning, in characters.
const WARNING_CHARS: usize = 200;
/// Size limit of the validator of a stored model list, in bytes.
const VALIDATOR_BYTES: usize = 1 << 10;

/// An action that an adapter requests while listing.
pub type ListingAction = Action<ListingEvent, ListingEnd>;

/// An event that an adapter reports while it lists models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListingEvent {
    /// Some of the models of the list.
    Models {
        /// The models with a valid id and facts of at most [`FACTS_BYTES`].
        models: Vec<ListedModel>,
        /// The number of models that were left out.
        left_out: usize,
    },
    /// A line for the operator, cleaned.
    Warning(String),
    /// An event that this version does not know.
    Unknown,
}

/// A model that an API lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel {
    /// The id: 1 to 128 visible ASCII characters.
    pub id: String,
    /// The facts in the API's response. They should be a JSON object, but are not parsed yet.
    pub facts: String,
}

/// The end of a successful listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingEnd {
    /// Whether the list contains all models.
    pub coverage: Coverage,
    /// A validator for the next listing, such as an ETag. It is dropped if it is longer than 1 KiB.
    pub validator: Option<String>,
    /// The number of seconds for which no new listing is needed, if the adapter reports it.
    pub fresh_for_s: Option<u32>,
}

/// How much of an API's models a listing reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// The list is complete: no other models exist.
    Complete,
    /// The list is partial: other models may exist.
    Partial,
    /// Nothing was reported: the last listing is still valid.
    Unchanged,
}

/// The instance that serves one listing. It keeps its pool slots until it is dropped.
pub struct RunningListing(SteppedInstance<catalogue::Guest>);

impl RunningListing {
    /// Resumes the adapter with `input`. Returns its next actions.
    ///
    /// # Errors
    /// A [`Failure`]. The instance cannot be used again after a failed or cancelled step.
    pub async fn resume(&mut self, input: Input) -> Result<Vec<ListingAction>, Failure> {
        let input = wit::Input::from(input);
        let resume =
            async |guest: &catalogue::Guest, store: &mut Store<GuestState>| guest.call_resume(store, &input).await;
        self.0.step(resume).await?.into_iter().map(action).collect()
    }
}

impl Sandbox {
    /// Begins a listing in a fresh instance. Returns the instance and its first actions, or `None` if the adapter
    /// cannot list models. `validator` is the validator from the last complete listing.
    ///
    /// # Errors
    /// Every error is reported as a [`Failure`].
    pub async fn begin_listing(
        &self,
        adapter: &LoadedAdapter,
        validator: Option<String>,
        options: &[(String, String)],
        budgets: &Budgets,
        log: Arc<dyn LogSink>,
    ) -> Result<Option<(RunningListing, Vec<ListingAction>)>, Failure> {
        if !adapter.lists_models() {
            return Ok(None);
        }
        let listing = catalogue::Listing { validator, options: wire::pairs(options) };
        let begin = async |pre: &AdapterPre, guest: AdapterGuest, store: &mut Store<GuestState>| {
            let guest = pre.catalogue(&guest, store)?;
            let actions = guest.call_begin(store, &listing).await?;
            Ok((guest, actions))
        };
        let (stepped, actions) = SteppedInstance::begin(self, adapter, budgets, log, begin).await?;
        let actions = actions.into_iter().map(action).collect::<Result<_, _>>()?;
        Ok(Some((RunningListing(stepped), actions)))
    }
}

/// Converts an action of a listing. Cleans texts and limits sizes.
fn action(action: WitListingAction) -> Result<ListingAction, Failure> {
    Ok(match action {
        WitListingAction::Send(request) => Action::Send(wire::send(request)?),
        WitListingAction::WaitMs(ms) => Action::Wait(std::time::Duration::from_millis(ms.into())),
        WitListingAction::Models(listed) => Action::Emit(models(listed)),
        WitListingAction::Extra(extra) if extra.name == "warning" => {
            Action::Emit(ListingEvent::Warning(text::excerpt(&extra.value, WARNING_CHARS)))
        }
        WitListingAction::Extra(_) => Action::Emit(ListingEvent::Unknown),
        WitListingAction::Finish(end) => Action::Finish(ListingEnd {
            coverage: match end.coverage.as_str() {
                "complete" => Coverage::Complete,
                "unchanged" => Coverage::Unchanged,
                _ => Coverage::Partial,
            },
            validator: end.validator.filter(|validator| validator.len() <= VALIDATOR_BYTES),
            fresh_for_s: end
                .extra
                .iter()
                .find(|pair| pair.name == "fresh-for-s")
                .and_then(|pair| pair.value.parse().ok()),
        }),
        WitListingAction::Fail(failure) => Action::Fail(wire::failure(failure)),
    })
}

fn models(listed: Vec<catalogue::ModelFacts>) -> ListingEvent {
    let all = listed.len();
    let valid = listed.into_iter().filter(|model| is_model_id(&model.id) && model.facts.len() <= FACTS_BYTES);
    let models: Vec<_> = valid.map(|model| ListedModel { id: model.id, facts: model.facts }).collect();
    ListingEvent::Models { left_out: all - models.len(), models }
}

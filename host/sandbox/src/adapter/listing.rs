//! A listing in progress: one adapter instance that asks its API for the models, step by step. Also what an adapter says of
//! one model. `provider` uses both for the catalogue.

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
/// Length limits in characters.
const WARNING_CHARS: usize = 200;
const VALIDATOR_BYTES: usize = 1 << 10;

/// An action of a listing.
pub type ListingAction = Action<ListingEvent, ListingEnd>;

/// What an adapter reports while it lists models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListingEvent {
    /// Some models.
    Models {
        /// Those with a valid id and facts of at most [`FACTS_BYTES`].
        models: Vec<ListedModel>,
        /// The number of the others.
        left_out: usize,
    },
    /// A line for the operator, cleaned.
    Warning(String),
    /// What this version does not know.
    Unknown,
}

/// A model that an API lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel {
    /// The id: 1 to 128 visible ASCII characters.
    pub id: String,
    /// What the API says of it: supposed to be a JSON object, not parsed yet.
    pub facts: String,
}

/// The end of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingEnd {
    /// How much was listed.
    pub coverage: Coverage,
    /// What the next listing gets, such as an ETag. A longer one than 1 KiB is dropped.
    pub validator: Option<String>,
    /// The number of seconds during which the host need not ask again, if the adapter says so.
    pub fresh_for_s: Option<u32>,
}

/// How much of an API's models a listing reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// No other models exist.
    Complete,
    /// There may be others.
    Partial,
    /// Nothing was reported: the last listing is still right.
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
    /// Begins a listing in a fresh instance. Returns the instance and its first actions; `None` if the adapter cannot list
    /// models. `validator` is what the last complete listing returned.
    ///
    /// # Errors
    /// A [`Failure`].
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

/// Converts an action of a listing: texts cleaned, sizes bounded.
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

//! Listings of models: the common part of all adapters, as a state machine.
//!
//! An [`Api`] creates the requests of one API and converts its pages. [`Pages`] sends the requests, collects the bodies and ends
//! each listing with `finish` or `fail`. Pages are untrusted: their size and number are bounded, and entries that are not models
//! are left out.

pub mod openai;

use patchbay_provider_sdk::{
    Failure, HttpRequest, Input, Listing, ListingAction, ListingEnd, ModelFacts, Pair, ResponseHead,
};
use serde_json::{Map, Value};

use crate::failure::{cut, failure, header, transport};
use crate::options::Extra;

/// The maximum size of a page, in bytes. An OpenRouter page with 500 models is about 1.5 MB.
const MAX_PAGE: usize = 8 << 20;

/// The maximum number of pages in one listing. The host also limits the number of requests.
const MAX_PAGES: u32 = 40;

/// The maximum size of a model's facts, in bytes. The host leaves out models with larger facts.
const MAX_FACTS: usize = 8 << 10;

/// The maximum length of a name or a description, in characters.
const MAX_TEXT: usize = 200;

/// Requests and pages of one API.
pub trait Api {
    /// Returns the request for the first page.
    fn first(&self) -> HttpRequest;

    /// Converts a page. `None` if the JSON is not a page of this API.
    fn page(&mut self, page: &Value) -> Option<Page>;

    /// Converts a response whose status is not 2xx.
    fn refused(&self, status: u16, headers: &[Pair], body: &[u8]) -> Failure;
}

/// A page of a listing, converted to facts.
#[derive(Debug)]
pub struct Page {
    /// The models that are on the page.
    pub models: Vec<ModelFacts>,
    /// The request for the next page.
    pub next: Option<HttpRequest>,
}

/// One listing, from its first request to its end.
#[derive(Debug)]
pub struct Pages<A> {
    api: A,
    /// The operator's headers, added to each request.
    extra: Extra,
    /// The validator of the last listing.
    last: Option<String>,
    head: Option<ResponseHead>,
    body: Vec<u8>,
    /// The path of the request that is pending.
    path: String,
    received: u32,
    is_over: bool,
}

impl<A: Api> Pages<A> {
    /// Begins a listing. Its validator is an ETag.
    pub fn begin(api: A, listing: Listing) -> (Self, Vec<ListingAction>) {
        let mut first = api.first();
        if let Some(etag) = listing.validator.as_ref().filter(|etag| etag.bytes().all(|byte| (32..127).contains(&byte)))
        {
            first.headers.push(Pair { name: "if-none-match".to_owned(), value: etag.clone() });
        }
        let path = first.path_and_query.clone();
        let (extra, refused) = match Extra::read(&listing.options) {
            Ok(extra) => (extra, None),
            Err(failure) => (Extra::default(), Some(failure)),
        };
        let first = refused.map_or_else(|| ListingAction::Send(extra.with_headers(first)), ListingAction::Fail);
        let is_over = matches!(first, ListingAction::Fail(_));
        let last = listing.validator;
        (Self { api, extra, last, head: None, body: Vec::new(), path, received: 0, is_over }, vec![first])
    }

    /// Handles an input and returns the next actions; none after the end.
    pub fn resume(&mut self, input: Input) -> Vec<ListingAction> {
        if self.is_over {
            return Vec::new();
        }
        let actions = match input {
            Input::ResponseHead(head) => {
                self.head = Some(head);
                Vec::new()
            }
            Input::BodyChunk(chunk) if self.body.len().saturating_add(chunk.len()) > MAX_PAGE => {
                vec![ListingAction::Fail(failure("server", format!("a page has more than {MAX_PAGE} bytes")))]
            }
            Input::BodyChunk(chunk) => {
                self.body.extend(chunk);
                Vec::new()
            }
            Input::BodyEnd => self.page(),
            Input::TransportFailed(failed) => vec![ListingAction::Fail(transport(failed))],
            Input::Timer => Vec::new(),
        };
        self.is_over = actions.iter().any(|action| matches!(action, ListingAction::Fail(_) | ListingAction::Finish(_)));
        actions
    }

    fn page(&mut self) -> Vec<ListingAction> {
        let Some(head) = self.head.take() else { return vec![ListingAction::Fail(cut())] };
        let body = std::mem::take(&mut self.body);
        if head.status == 304 {
            return vec![finish("unchanged", self.last.take())];
        }
        if !(200..300).contains(&head.status) {
            return vec![ListingAction::Fail(self.api.refused(head.status, &head.headers, &body))];
        }
        let page = serde_json::from_slice(&body).ok().and_then(|page: Value| self.api.page(&page));
        let Some(Page { models, next }) = page else {
            let failed = failure("server", "the response is not a list of models");
            return vec![ListingAction::Fail(Failure { http_status: Some(head.status), ..failed })];
        };
        self.received += 1;
        let is_only_page = self.received == 1 && next.is_none();
        let mut actions = vec![ListingAction::Models(models)];
        match next {
            // A server that names the current page as the next one would only send the same page again.
            Some(next) if self.received < MAX_PAGES && next.path_and_query != self.path => {
                self.path.clone_from(&next.path_and_query);
                actions.push(ListingAction::Send(self.extra.with_headers(next)));
            }
            Some(_) => actions.push(finish("partial", None)),
            None => {
                // The validator of one page does not cover the others.
                let etag = header(&head.headers, "etag").filter(|_| is_only_page);
                actions.push(finish("complete", etag.map(str::to_owned)));
            }
        }
        actions
    }
}

fn finish(coverage: &str, validator: Option<String>) -> ListingAction {
    ListingAction::Finish(ListingEnd { coverage: coverage.to_owned(), validator, extra: Vec::new() })
}

/// Collects the facts of one model. Facts that an API does not report are left out.
#[derive(Debug, Default)]
pub struct Facts(Map<String, Value>);

impl Facts {
    /// Adds a fact under this name.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Adds a string as one line, cut at 200 characters, if `value` is a string.
    pub fn text(&mut self, name: &str, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.trim().is_empty()) {
            let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
            self.set(name, line.chars().take(MAX_TEXT).collect::<String>());
        }
    }

    /// Adds a number of tokens if `value` is a number above 0.
    pub fn tokens(&mut self, name: &str, value: &Value) {
        if let Some(tokens) = value.as_u64().filter(|tokens| *tokens > 0) {
            self.set(name, tokens);
        }
    }

    /// Adds `name` to an object of facts, such as `lifecycle` or `capabilities`.
    pub fn within(&mut self, object: &str, name: &str, value: impl Into<Value>) {
        let entry = self.0.entry(object).or_insert_with(|| Map::new().into());
        if let Some(object) = entry.as_object_mut() {
            object.insert(name.to_owned(), value.into());
        }
    }

    /// Adds prices per million tokens, in US dollars.
    pub fn prices(&mut self, prices: &[(&str, Option<String>)]) {
        for (name, amount) in prices {
            if let Some(amount) = amount {
                self.within("prices", name, amount.as_str());
            }
        }
        if self.0.contains_key("prices") {
            self.within("prices", "currency", "USD");
            self.within("prices", "per-tokens", 1_000_000);
        }
    }

    /// Adds the thinking levels for which `explain` returns no warning, and `none` even with a warning. A level whose description
    /// does not begin with `Thinking: ` is left out.
    pub fn levels(&mut self, explain: impl Fn(&str) -> patchbay_provider_sdk::ThinkingPlan) {
        let levels = crate::thinking::Level::ALL.map(crate::thinking::Level::name).into_iter().filter_map(|level| {
            let plan = explain(level);
            let sends = plan.description.first()?.strip_prefix("Thinking: ")?;
            let is_own = plan.warning.is_none() || level == "none";
            is_own.then(|| serde_json::json!({ "level": level, "sends": sends }))
        });
        let levels: Vec<Value> = levels.collect();
        self.set("levels", levels);
    }

    /// Returns the fact with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns the facts as an object.
    pub fn object(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns the model with these facts. `None` if `id` is not a string.
    pub fn of(mut self, id: &Value) -> Option<ModelFacts> {
        let id = id.as_str()?.to_owned();
        let mut facts = Value::Object(self.0.clone()).to_string();
        if facts.len() > MAX_FACTS {
            self.0.retain(|_, value| value.to_string().len() <= MAX_TEXT * 4);
            facts = Value::Object(self.0).to_string();
        }
        Some(ModelFacts { id, facts })
    }
}

/// Returns the items of a list, or nothing if it is not a list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns true if a list of strings contains `word`.
pub fn contains(list: &Value, word: &str) -> bool {
    self::list(list).iter().any(|item| item == word)
}

/// Returns the date of an RFC 3339 time, `YYYY-MM-DD`. `None` for anything else, and for the epoch,
/// which means that a date is unknown.
pub fn date(time: &Value) -> Option<String> {
    let date = time.as_str()?.get(..10)?;
    let fits = date
        .bytes()
        .enumerate()
        .all(|(at, byte)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() });
    (fits && date > "1970-01-01").then(|| date.to_owned())
}

/// Returns the date of a Unix time in seconds. `None` after 9999, and before 1971, because a time near 0 means that the date is
/// unknown.
pub fn unix_date(seconds: &Value) -> Option<String> {
    let days = seconds.as_u64()? / 86_400;
    if !(365..2_932_897).contains(&days) {
        return None;
    }
    // The year begins in March here, which makes the leap day its last day.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year) } else { (month - 9, year + 1) };
    Some(format!("{:04}-{month:02}-{day:02}", year + era * 400))
}

/// Returns `amount` times `factor` as a decimal string. `None` if `amount` is not a number, or the product is negative or above
/// 1e9.
pub fn amount(amount: &Value, factor: f64) -> Option<String> {
    let number = amount.as_f64().or_else(|| amount.as_str()?.trim().parse().ok())?;
    let product = number * factor;
    if !(0.0..=1e9).contains(&product) {
        return None;
    }
    let text = format!("{product:.6}");
    Some(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

/// Escapes a string for use as a value in a query.
pub fn query(text: &str) -> String {
    let mut query = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => query.push(byte.into()),
            _ => query.push_str(&format!("%{byte:02X}")),
        }
    }
    query
}

/// The result that [`play`] returns.
#[derive(Debug, Default)]
pub struct Played {
    /// The paths of the requests.
    pub paths: Vec<String>,
    /// The models with their facts, in order.
    pub models: Vec<(String, Value)>,
    /// The coverage and the validator; `None` if the listing failed.
    pub end: Option<(String, Option<String>)>,
    /// The failure that ended the listing, if any.
    pub failure: Option<Failure>,
}

/// For the tests of adapters: feeds `pages`, each cut into pieces of `size` bytes, to a listing.
///
/// # Panics
/// If there are more or fewer `pages` than requests, a request is not a GET with one credential, or facts are not a JSON object.
pub fn play<C: patchbay_provider_sdk::Catalogue>(pages: &[&str], size: usize) -> Played {
    let mut played = Played::default();
    let listing = Listing { validator: None, options: Vec::new() };
    let (mut listing, first) = C::begin(listing);
    let mut actions = first;
    let mut pages = pages.iter();
    loop {
        let mut sent = false;
        for action in actions {
            match action {
                ListingAction::Send(request) => {
                    assert_eq!((request.method.as_str(), request.auth.len()), ("GET", 1));
                    played.paths.push(request.path_and_query);
                    sent = true;
                }
                ListingAction::Models(models) => played.models.extend(models.into_iter().map(|model| {
                    let facts: Value = serde_json::from_str(&model.facts).expect("JSON");
                    assert!(facts.is_object());
                    (model.id, facts)
                })),
                ListingAction::Finish(end) => played.end = Some((end.coverage, end.validator)),
                ListingAction::Fail(failure) => played.failure = Some(failure),
                ListingAction::WaitMs(_) | ListingAction::Extra(_) => {}
            }
        }
        if !sent {
            assert_eq!(pages.len(), 0, "a page has no request");
            return played;
        }
        let page = pages.next().expect("a page for each request");
        let headers = vec![Pair { name: "ETag".to_owned(), value: "\"v1\"".to_owned() }];
        actions = listing.resume(Input::ResponseHead(ResponseHead { status: 200, headers }));
        for piece in page.as_bytes().chunks(size) {
            actions.extend(listing.resume(Input::BodyChunk(piece.to_vec())));
        }
        actions.extend(listing.resume(Input::BodyEnd));
    }
}

#[cfg(test)]
mod tests;

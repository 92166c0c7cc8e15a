//! The options that the host adds to the operator's options. `adapter` passes them to each instance; the comment of
//! `completion-request.options` in `wit/provider/provider.wit` documents them for authors.

use patchbay_core::completion::RequestHints;

/// Only the host sets options whose names begin with this prefix.
pub(crate) const HOST_PREFIX: &str = "host:";

/// Returns `options` followed by the host's options, for the attempt with this number. `model_facts` are the model's
/// known facts, as JSON.
pub(super) fn behind(
    options: &[(String, String)],
    hints: &RequestHints,
    model_facts: Option<&str>,
    attempt: u32,
) -> Vec<(String, String)> {
    let own = [
        ("model-facts", model_facts.map(str::to_owned)),
        ("purpose", Some(hints.purpose.as_str().to_owned())),
        ("attempt", Some(attempt.to_string())),
        ("cache-key", hints.cache_key.clone()),
        ("bound-from", hints.bound_from.map(|index| index.to_string())),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((format!("{HOST_PREFIX}{name}"), value?)));
    options.iter().cloned().chain(own).collect()
}

/// Returns `options` followed by the model's known facts, which is how an adapter receives them to explain a thinking
/// level.
pub(crate) fn with_facts(options: &[(String, String)], model_facts: Option<String>) -> Vec<(String, String)> {
    let facts = model_facts.map(|facts| (format!("{HOST_PREFIX}model-facts"), facts));
    options.iter().cloned().chain(facts).collect()
}

#[cfg(test)]
mod tests {
    use patchbay_core::completion::RequestPurpose;

    use super::*;

    fn shown(options: &[(String, String)]) -> Vec<String> {
        options.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn host_options_follow_those_of_the_operator() {
        let operator = [("cache".to_owned(), "off".to_owned())];
        let hints =
            RequestHints { purpose: RequestPurpose::Summary, cache_key: Some("0af1".to_owned()), bound_from: Some(3) };
        let expected = [
            "cache=off",
            "host:model-facts={}",
            "host:purpose=summary",
            "host:attempt=2",
            "host:cache-key=0af1",
            "host:bound-from=3",
        ];
        assert_eq!(shown(&behind(&operator, &hints, Some("{}"), 2)), expected);
        // Absent hints have no option.
        assert_eq!(shown(&behind(&[], &RequestHints::default(), None, 1)), ["host:purpose=turn", "host:attempt=1"]);
    }
}

//! Prefixes of model names, by which the registry finds the provider of a model.
//!
//! A prefix that ends in `-` or `/`, such as `claude-` and `google/`, matches every longer name. Any other prefix matches exactly
//! its own name and names that continue with `-`: `o3` matches `o3` and `o3-mini`, not `o30`.

/// Whether `prefix` matches `model`.
pub(crate) fn matches(prefix: &str, model: &str) -> bool {
    match model.strip_prefix(prefix) {
        None => false,
        Some(rest) if prefix.ends_with(['-', '/']) => !rest.is_empty(),
        Some(rest) => rest.is_empty() || rest.starts_with('-'),
    }
}

/// Whether two prefixes could match the same model.
pub(crate) fn overlap(a: &str, b: &str) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prefixes_match_whole_words() {
        for (prefix, model, expected) in [
            ("claude-", "claude-sonnet-4-5", true),
            ("claude-", "claude", false),
            ("claude-", "claude-", false),
            ("o3", "o3", true),
            ("o3", "o3-mini", true),
            ("o3", "o30", false),
            ("o3", "o3mini", false),
            ("gpt-", "gpt4", false),
            ("google/", "google/gemini-4", true),
            ("google/", "google/", false),
            ("google/", "google", false),
        ] {
            assert_eq!(matches(prefix, model), expected, "{prefix} {model}");
        }
        assert!(overlap("o1", "o1-") && overlap("o1", "o1") && !overlap("o1", "o3"));
    }

    proptest! {
        #[test]
        fn prefixes_that_do_not_overlap_share_no_model(a in "[ab/-]{1,3}", b in "[ab/-]{1,3}", model in "[ab/-]{1,6}") {
            prop_assert!(overlap(&a, &b) || !(matches(&a, &model) && matches(&b, &model)));
        }
    }
}

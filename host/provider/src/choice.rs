//! A model choice, and parsing it from `[PROVIDER:]MODEL[/THINKING]`. `/model`, `default_model` and model overrides use it.

use std::fmt;

use patchbay_core::{Name, completion::ThinkingLevel, text};
use patchbay_sandbox::adapter::ModelSize;
use serde::{Deserialize, Serialize};

use crate::{ModelError, model_name::name_problem};

/// A model of a provider, with a thinking level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The provider that has the model.
    pub provider: Name,
    /// The model's id, as the provider spells it.
    pub model: String,
    /// The thinking level; `None` for the provider's default.
    pub level: Option<ThinkingLevel>,
}

impl Choice {
    /// Returns the choice as `/model` accepts it, `PROVIDER:MODEL[/THINKING]`. The result is cleaned, because a choice that an
    /// older build stored may contain anything.
    pub fn as_argument(&self) -> String {
        let level = self.level.map(|level| format!("/{}", level.as_str())).unwrap_or_default();
        text::excerpt(&format!("{}:{}{level}", self.provider, self.model), 200)
    }

    /// Checks the model's name. A choice that an older build stored may have an invalid one.
    ///
    /// # Errors
    /// [`ModelError::NotAName`].
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        match name_problem(&self.model) {
            Some(why) => Err(ModelError::NotAName { text: self.model.clone(), why }),
            None => Ok(()),
        }
    }
}

/// Writes `PROVIDER/MODEL/LEVEL`; the level is `default` if there is none.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.map_or("default", ThinkingLevel::as_str);
        write!(f, "{}/{}/{level}", self.provider, self.model)
    }
}

/// A kind of model, selected by its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "snake_case")]
pub enum Selector {
    /// A fast and inexpensive model.
    Small,
    /// A model for most kinds of work.
    Normal,
    /// The most capable kind of model.
    Big,
}

impl Selector {
    /// Returns the selector's name, such as `small`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the acceptable sizes, the best first.
    pub(crate) fn sizes(self) -> [ModelSize; 4] {
        use ModelSize::{Large, Normal, Small, Unknown};
        match self {
            Self::Small => [Small, Normal, Large, Unknown],
            Self::Normal => [Normal, Large, Small, Unknown],
            Self::Big => [Large, Normal, Small, Unknown],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelQuery {
    /// The provider, if the text names one.
    pub(crate) provider: Option<Name>,
    pub(crate) model: String,
    /// The thinking level, if the text names one.
    pub(crate) level: Option<ThinkingLevel>,
}

/// The names that parsing depends on. The registry knows them; tests use a fake.
pub(crate) trait Names {
    /// Whether a provider has this name.
    fn is_provider(&self, name: &str) -> bool;
    /// Whether a catalogue has exactly this id. `provider` restricts it to that provider's catalogue.
    fn is_model(&self, provider: Option<&Name>, id: &str) -> bool;
}

/// Parses `[PROVIDER:]MODEL[/THINKING]`. If the whole text is a listed id, it is the model. Otherwise the text after
/// the only `/` is the level. With several `/`, or after a provider, the text after the last `/` is the level if it is
/// valid, and otherwise part of the name (`openrouter:anthropic/claude-opus-5.5`). A name with an empty part between
/// slashes, or with two levels, is not a model name unless a catalogue lists it.
///
/// # Errors
/// [`ModelError::Level`], [`ModelError::NoLevel`], [`ModelError::NoModel`], [`ModelError::NotAName`].
pub(crate) fn parse(text: &str, names: &dyn Names) -> Result<ModelQuery, ModelError> {
    let not_a_name = |why| Err(ModelError::NotAName { text: text.to_owned(), why });
    // Checked before the level, because the error for an invalid level quotes it unchanged.
    if text.chars().any(char::is_whitespace) || text::clean(text) != text {
        return not_a_name(name_problem(text).unwrap_or_default());
    }
    let (provider, rest) = match text.split_once(':') {
        Some((provider, rest)) if names.is_provider(provider) => (provider.parse().ok(), rest),
        _ => (None, text),
    };
    if rest.is_empty() {
        return Err(ModelError::NoModel(text.to_owned()));
    }
    let checked = |model: &str, level: Option<ThinkingLevel>| {
        let listed = names.is_model(provider.as_ref(), model);
        let last = model.rsplit_once('/').map_or("", |(_, last)| last);
        let why = name_problem(model).or_else(|| match listed {
            true => None,
            false if model.split('/').any(str::is_empty) => Some("it begins or ends with '/', or contains '//'"),
            false if level.is_some() && ThinkingLevel::from_word(last).is_some() => Some("it has two thinking levels"),
            false => None,
        });
        match why {
            Some(why) => not_a_name(why),
            None => Ok(ModelQuery { provider: provider.clone(), model: model.to_owned(), level }),
        }
    };
    if names.is_model(provider.as_ref(), rest) {
        return checked(rest, None);
    }
    let Some((model, level)) = rest.rsplit_once('/') else { return checked(rest, None) };
    match ThinkingLevel::from_word(level) {
        Some(_) if model.is_empty() => Err(ModelError::NoModel(text.to_owned())),
        Some(level) => checked(model, Some(level)),
        None if level.is_empty() => Err(ModelError::NoLevel(text.to_owned())),
        None if provider.is_some() || model.contains('/') => checked(rest, None),
        None => Err(ModelError::Level { level: level.to_owned(), more: Vec::new() }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model_name::NAME_RULE;

    struct FakeNames;

    impl Names for FakeNames {
        fn is_provider(&self, name: &str) -> bool {
            matches!(name, "openai" | "local")
        }

        fn is_model(&self, provider: Option<&Name>, id: &str) -> bool {
            id == "gpt-4o" || (id == "meta/llama/high" && provider.is_none_or(|name| name.as_str() == "local"))
        }
    }

    fn asked(text: &str) -> Result<String, String> {
        let asked = parse(text, &FakeNames).map_err(|error| error.to_string())?;
        let provider = asked.provider.map_or_else(|| "-".to_owned(), |name| name.to_string());
        Ok(format!("{provider} {} {}", asked.model, asked.level.map_or("-", ThinkingLevel::as_str)))
    }

    #[test]
    fn model_texts_are_parsed() {
        for (text, expected) in [
            ("gpt-4o", "- gpt-4o -"),
            ("gpt-4o/none", "- gpt-4o none"),
            ("openai:gpt-4o/high", "openai gpt-4o high"),
            ("other:gpt-4o/high", "- other:gpt-4o high"),
            ("local:llama3:3b/low", "local llama3:3b low"),
            ("llama3:3b", "- llama3:3b -"),
            // An exact id is not split, although it ends like a level.
            ("meta/llama/high", "- meta/llama/high -"),
            ("local:meta/llama/high", "local meta/llama/high -"),
            ("openai:meta/llama/high", "openai meta/llama high"),
            // Two levels, but the first one belongs to an exact id.
            ("meta/llama/high/low", "- meta/llama/high low"),
            ("org/model/v2", "- org/model/v2 -"),
            // After a provider, a word that is not a level is part of the name.
            ("local:anthropic/claude-opus-5.5", "local anthropic/claude-opus-5.5 -"),
            ("local:anthropic/claude-opus-5.5/high", "local anthropic/claude-opus-5.5 high"),
            ("local:org/model:free", "local org/model:free -"),
            ("local:org/High", "local org/High -"),
            ("openai:gpt-4o/maximum", "openai gpt-4o/maximum -"),
        ] {
            assert_eq!(asked(text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(
            asked("claude-sonnet-4-5/maximum").unwrap_err(),
            "Invalid thinking level: maximum\nValid levels: none, low, med, high"
        );
        assert_eq!(asked("gpt-4o/").unwrap_err(), "a thinking level must follow '/' in 'gpt-4o/'.");
        assert_eq!(asked("openai:").unwrap_err(), "/model requires a model name.");
        assert_eq!(asked("/high").unwrap_err(), "/model requires a model name.");
        assert_eq!(asked("org/model/").unwrap_err(), "a thinking level must follow '/' in 'org/model/'.");
        assert_eq!(asked("local:org/").unwrap_err(), "a thinking level must follow '/' in 'local:org/'.");
        // `other` is not a provider.
        assert_eq!(
            asked("other:org/model").unwrap_err(),
            "Invalid thinking level: model\nValid levels: none, low, med, high"
        );
        assert_eq!(
            asked("claude-sonnet-4-5/m\u{e9}d").unwrap_err(),
            "Invalid thinking level: m\u{e9}d\nValid levels: none, low, med, high"
        );
    }

    #[test]
    fn invalid_model_names_are_refused() {
        let long = "m".repeat(129);
        for (text, shown, why) in [
            ("claude-sonnet-4-5 med", "claude-sonnet-4-5 med", "it contains white space"),
            ("claude-sonnet-4-5 /med", "claude-sonnet-4-5 /med", "it contains white space"),
            ("claude-sonnet-4-5/ med", "claude-sonnet-4-5/ med", "it contains white space"),
            ("gpt-\u{1b}]0;x\u{7}", "gpt-]0;x", "it contains invisible characters"),
            ("gpt-4o/med\u{200b}", "gpt-4o/med", "it contains invisible characters"),
            ("claude-\u{202e}abc", "claude-abc", "it contains invisible characters"),
            ("claude-\u{e9}", "claude-\u{e9}", "it contains characters that are not ASCII"),
            (&*long, &*format!("{}\u{2026}", &long[..80]), "it is too long"),
            ("claude-sonnet-4-5//high", "claude-sonnet-4-5//high", "it begins or ends with '/', or contains '//'"),
            ("org//model/v2", "org//model/v2", "it begins or ends with '/', or contains '//'"),
            ("claude-sonnet-4-5/low/high", "claude-sonnet-4-5/low/high", "it has two thinking levels"),
            ("openai:gpt-4o/low/high", "openai:gpt-4o/low/high", "it has two thinking levels"),
            ("local:/model", "local:/model", "it begins or ends with '/', or contains '//'"),
            ("local:org//model", "local:org//model", "it begins or ends with '/', or contains '//'"),
            ("local:org/mod\u{e9}l", "local:org/mod\u{e9}l", "it contains characters that are not ASCII"),
        ] {
            let expected = format!("'{shown}' is not a model name: {why}; {NAME_RULE}.");
            assert_eq!(asked(text).unwrap_err(), expected, "{text:?}");
        }
        assert_eq!(asked(&long[1..]).as_deref(), Ok(&*format!("- {} -", &long[1..])));
    }

    proptest! {
        #[test]
        fn parsed_model_is_a_valid_name(text in "\\PC{0,12}|[a-z/ :\u{1b}\u{200b}]{0,12}/(none|low|med|high)") {
            if let Ok(ModelQuery { model, .. }) = parse(&text, &FakeNames) {
                prop_assert_eq!(name_problem(&model), None);
            }
        }

        #[test]
        fn after_a_provider_every_path_is_a_model(path in "[a-zA-Z0-9.:-]{1,9}(/[a-zA-Z0-9.:-]{1,9}){0,3}") {
            let ModelQuery { provider, model, level } = match parse(&format!("local:{path}"), &FakeNames) {
                Ok(query) => query,
                // Two levels at the end are a mistake.
                Err(ModelError::NotAName { why: "it has two thinking levels", .. }) => return Ok(()),
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            };
            prop_assert_eq!(provider.as_ref().map(Name::as_str), Some("local"));
            let last = path.rsplit_once('/').and_then(|(_, last)| ThinkingLevel::from_word(last));
            prop_assert_eq!(level, last.filter(|_| path != "meta/llama/high"));
            prop_assert_eq!(model + &level.map(|level| format!("/{}", level.as_str())).unwrap_or_default(), path);
        }

        #[test]
        fn parsed_parts_make_up_the_text(text in "[a-z:/]{1,12}|(openai|local):[a-z/]{0,9}/(none|low|med|high)") {
            if let Ok(ModelQuery { provider, model, level }) = parse(&text, &FakeNames) {
                let provider = provider.map(|name| format!("{name}:")).unwrap_or_default();
                let level = level.map(|level| format!("/{}", level.as_str())).unwrap_or_default();
                prop_assert_eq!(format!("{}{}{}", provider, model, level), text);
            }
        }
    }
}

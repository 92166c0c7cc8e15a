//! `MODEL[/THINKING]`, with or without the provider before it.

use std::fmt;

use patchbay_core::{Name, completion::ThinkingLevel};
use patchbay_sandbox::adapter::ModelSize;
use serde::{Deserialize, Serialize};

use crate::ModelError;

/// A model, whose it is, and how hard it is to think.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The provider.
    pub provider: Name,
    /// The model's id.
    pub model: String,
    /// The thinking level; none: the provider's default.
    pub level: Option<ThinkingLevel>,
}

/// `PROVIDER/MODEL/LEVEL`, where no level reads `default`.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.map_or("default", ThinkingLevel::as_str);
        write!(f, "{}/{}/{level}", self.provider, self.model)
    }
}

/// A model by its size, whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Selector {
    /// Quick and cheap.
    Small,
    /// For most work.
    Normal,
    /// The best there is.
    Big,
}

impl Selector {
    /// The sizes that will do, the best first.
    pub(crate) fn sizes(self) -> [ModelSize; 4] {
        use ModelSize::{Large, Normal, Small, Unknown};
        match self {
            Self::Small => [Small, Normal, Large, Unknown],
            Self::Normal => [Normal, Large, Small, Unknown],
            Self::Big => [Large, Normal, Small, Unknown],
        }
    }
}

/// What a text asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The provider, where one is named.
    pub(crate) provider: Option<Name>,
    /// The model.
    pub(crate) model: String,
    /// The thinking level.
    pub(crate) level: Option<ThinkingLevel>,
}

/// What is known of names.
pub(crate) trait Names {
    /// Whether there is such a provider.
    fn is_provider(&self, name: &str) -> bool;
    /// Whether a catalogue has exactly this id; that of `provider`, where one is named.
    fn is_model(&self, provider: Option<&Name>, id: &str) -> bool;
}

/// Reads `[PROVIDER:]MODEL[/THINKING]`. An exact id is taken whole; else with one `/` what follows is the level; with more,
/// what follows the last one is, if it is a level at all.
///
/// # Errors
/// [`ModelError::Level`], [`ModelError::NoLevel`], [`ModelError::NoModel`].
pub(crate) fn read(text: &str, names: &dyn Names) -> Result<Asked, ModelError> {
    let (provider, rest) = match text.split_once(':') {
        Some((provider, rest)) if names.is_provider(provider) => (provider.parse().ok(), rest),
        _ => (None, text),
    };
    if rest.is_empty() {
        return Err(ModelError::NoModel(text.to_owned()));
    }
    let whole = |provider| Ok(Asked { provider, model: rest.to_owned(), level: None });
    if names.is_model(provider.as_ref(), rest) {
        return whole(provider);
    }
    let Some((model, level)) = rest.rsplit_once('/') else { return whole(provider) };
    match ThinkingLevel::from_word(level) {
        Some(_) if model.is_empty() => Err(ModelError::NoModel(text.to_owned())),
        Some(level) => Ok(Asked { provider, model: model.to_owned(), level: Some(level) }),
        None if model.contains('/') => whole(provider),
        None if level.is_empty() => Err(ModelError::NoLevel(text.to_owned())),
        None => Err(ModelError::Level(level.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Known;

    impl Names for Known {
        fn is_provider(&self, name: &str) -> bool {
            matches!(name, "openai" | "local")
        }

        fn is_model(&self, provider: Option<&Name>, id: &str) -> bool {
            id == "gpt-4o" || (id == "meta/llama/high" && provider.is_none_or(|name| name.as_str() == "local"))
        }
    }

    fn asked(text: &str) -> Result<String, String> {
        let asked = read(text, &Known).map_err(|error| error.to_string())?;
        let provider = asked.provider.map_or_else(|| "-".to_owned(), |name| name.to_string());
        Ok(format!("{provider} {} {}", asked.model, asked.level.map_or("-", ThinkingLevel::as_str)))
    }

    #[test]
    fn models_levels_and_providers() {
        for (text, expected) in [
            ("gpt-4o", "- gpt-4o -"),
            ("gpt-4o/none", "- gpt-4o none"),
            ("openai:gpt-4o/high", "openai gpt-4o high"),
            ("other:gpt-4o/high", "- other:gpt-4o high"),
            ("local:llama3:3b/low", "local llama3:3b low"),
            ("llama3:3b", "- llama3:3b -"),
            // An exact id is taken whole, though its end is a level.
            ("meta/llama/high", "- meta/llama/high -"),
            ("local:meta/llama/high", "local meta/llama/high -"),
            ("openai:meta/llama/high", "openai meta/llama high"),
            ("meta/llama/high/low", "- meta/llama/high low"),
            ("org/model/v2", "- org/model/v2 -"),
            ("org/model/", "- org/model/ -"),
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
    }

    proptest! {
        #[test]
        fn nothing_is_lost_of_a_text(text in "[a-z:/]{1,12}|(openai|local):[a-z/]{0,9}/(none|low|med|high)") {
            if let Ok(Asked { provider, model, level }) = read(&text, &Known) {
                let provider = provider.map(|name| format!("{name}:")).unwrap_or_default();
                let level = level.map(|level| format!("/{}", level.as_str())).unwrap_or_default();
                prop_assert_eq!(format!("{}{}{}", provider, model, level), text);
            }
        }
    }
}

//! The providers' part of `config.toml`. `cli` reads the file; a reload reads its [`Settings`].

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use patchbay_core::{Money, Name, completion::ThinkingLevel, text};
use patchbay_egress::{CommandLine, KEY_COMMAND_MS, Variables};
use patchbay_sandbox::adapter::{ModelEntry, ModelSize};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::json;

use crate::{exchange::host_options::HOST_PREFIX, model_name};

/// One `[providers.NAME]`: the operator's settings for a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// The name of the adapter: a bundled one, or a file of the `providers` folder. The default is the name of the
    /// table. With another name, the table makes another instance of the adapter.
    pub adapter: Option<Name>,
    /// The destination of all requests: `https://HOST[:PORT][/PATH]`; `http` only for this machine, unless `allow_private` is set.
    /// A bundled adapter under its own name has a default, and an adapter file may suggest one. Another instance of an adapter
    /// needs this key, unless the adapter sends no requests.
    pub origin: Option<String>,
    /// Whether `origin` may be a machine of the private network, even over plain `http`. Without https, the identity of
    /// a server cannot be verified, so this is never the default.
    pub allow_private: bool,
    /// The environment variable of the key, or a list of variables, of which the first that is not empty is used; `""`
    /// if the provider needs no key. `credentials.json` may have the key under the provider's name instead. A bundled
    /// adapter under its own name has a default, and an adapter file may suggest one, which is used unless `origin` is set. A variable
    /// belongs to only one provider.
    pub env: Option<Variables>,
    /// A command that prints the key: a list of a program and its arguments, instead of `env`. It is run without a
    /// shell when a request needs the key: [providers.md](providers.md#a-key-from-a-command).
    pub key_command: Option<CommandLine>,
    /// Time limit of one run of `key_command`, in milliseconds; 10 seconds if it is not set.
    #[schemars(range(min = 1, max = KEY_COMMAND_MS))]
    pub key_command_ms: Option<u64>,
    /// Prefixes of the provider's models: `mistral-` matches every model that begins with it, `o3` matches `o3` and
    /// `o3-…`. An adapter under its own name has defaults. The models of a provider without prefixes are
    /// written `PROVIDER:MODEL`, unless `models` names them.
    pub prefixes: Option<Vec<String>>,
    /// Additional models, besides the adapter's catalogue. Each is an id, or a table with `id`, `size` (`small`,
    /// `normal`, `large`), `context_window` and `max_output_tokens` (tokens), `input_media` (such as `image/png`), `levels`
    /// (thinking levels for tab completion; `openai` sends no others to a model that it does not know) and `price`: a table with
    /// `input` and `output`, and if they differ `cache_read` and `cache_write`, each in US dollars for a million tokens, such as
    /// `{ input = "2.50", output = "10" }`. This price replaces the known one.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub models: Vec<ModelConfig>,
    /// Context window in tokens of models for which neither the catalogue nor `models` specifies one.
    pub context_window: Option<u64>,
    /// Settings for the adapter, which documents them. Names that begin with `host:` are reserved for Patchbay.
    #[serde(deserialize_with = "options")]
    pub options: BTreeMap<String, String>,
}

impl ProviderConfig {
    /// Describes the problem if keys are set that exclude each other.
    pub fn problem(&self) -> Option<&'static str> {
        let two = self.env.is_some() && self.key_command.is_some();
        two.then_some("a key has one source: set `env` or `key_command`, not both")
    }
}

/// A model that the operator adds to a provider's catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelConfig(pub ModelEntry);

impl<'de> Deserialize<'de> for ModelConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            #[serde(deserialize_with = "id")]
            id: String,
            #[serde(default = "unknown")]
            size: ModelSize,
            #[serde(default)]
            context_window: Option<u64>,
            #[serde(default)]
            input_media: Vec<String>,
            #[serde(default)]
            levels: Vec<ThinkingLevel>,
            #[serde(default)]
            max_output_tokens: Option<u64>,
            #[serde(default)]
            price: Option<PriceConfig>,
        }
        struct IdOrTable;
        impl<'de> Visitor<'de> for IdOrTable {
            type Value = ModelConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a model's id, or a table with `id`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ModelConfig, E> {
                let id = checked(text.to_owned())?;
                let (input_media, levels) = (vec![], vec![]);
                let (context_window, max_output_tokens, price) = (None, None, None);
                let size = unknown();
                Ok(entry(Table { id, size, context_window, input_media, levels, max_output_tokens, price }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ModelConfig, A::Error> {
                Table::deserialize(MapAccessDeserializer::new(map)).map(entry)
            }
        }
        fn entry(table: Table) -> ModelConfig {
            let mut facts = serde_json::Map::new();
            facts.extend(table.max_output_tokens.map(|tokens| ("max-output-tokens".to_owned(), json!(tokens))));
            facts.extend(table.price.map(|price| ("prices".to_owned(), price.facts())));
            ModelConfig(ModelEntry {
                id: table.id,
                size: table.size,
                suggested_levels: table.levels,
                input_media: table.input_media,
                context_window: table.context_window,
                deprecated: false,
                facts: (!facts.is_empty()).then(|| serde_json::Value::Object(facts).to_string()),
            })
        }
        deserializer.deserialize_any(IdOrTable)
    }
}

/// The price of a model, in US dollars for a million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceConfig {
    input: Money,
    output: Money,
    cache_read: Option<Money>,
    cache_write: Option<Money>,
}

impl PriceConfig {
    /// Returns the prices as facts of a model.
    fn facts(&self) -> serde_json::Value {
        // Without a configured price, cached tokens cost as much as other input, whatever the catalogue says.
        let [read, write] = [self.cache_read, self.cache_write].map(|price| price.unwrap_or(self.input).to_string());
        let [input, output] = [self.input, self.output].map(|price| price.to_string());
        json!({
            "currency": "USD", "per-tokens": 1_000_000, "tiers": [],
            "input": input, "output": output, "cache-read": read, "cache-write": write,
        })
    }
}

fn unknown() -> ModelSize {
    ModelSize::Unknown
}

fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(String::deserialize(deserializer)?)
}

fn checked<E: Error>(id: String) -> Result<String, E> {
    if model_name::name_problem(&id).is_none() { Ok(id) } else { Err(E::custom(model_name::NAME_RULE)) }
}

fn options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let options = BTreeMap::<String, String>::deserialize(deserializer)?;
    match options.keys().find(|name| name.starts_with(HOST_PREFIX)) {
        Some(name) => Err(D::Error::custom(format!(
            "option '{}' is reserved: Patchbay itself sets the options that begin with '{HOST_PREFIX}'; remove it",
            text::excerpt(name, 80)
        ))),
        None => Ok(options),
    }
}

/// When the APIs of providers are asked for their models: `[catalogue]` of `config.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CatalogueSettings {
    /// Hours after which the terminal, `patchbay acp` and `patchbay serve` refresh the model lists of the providers that you
    /// use, in the background, except providers with a `key_command`; 0 for never. `/providers refresh` refreshes them at any time.
    #[schemars(range(max = 8760))]
    pub refresh_hours: u32,
}

impl Default for CatalogueSettings {
    fn default() -> Self {
        Self { refresh_hours: 24 }
    }
}

/// The operator's settings for all providers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The tables `[providers.NAME]`, by name.
    pub providers: BTreeMap<Name, ProviderConfig>,
    /// `[routes]`: a model's id, or a prefix of ids, and the provider that is asked for it.
    pub routes: BTreeMap<String, Name>,
    /// `default_model`: the model of an agent for which none was chosen.
    pub default_model: Option<String>,
    /// The names of `[credentials.NAME]`. Their keys are for skills, never for a provider of the same name.
    pub credentials: BTreeSet<Name>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_table_is_parsed_and_errors_name_the_key() {
        let config: ProviderConfig = toml::from_str(
            "adapter = \"openai-compatible\"\norigin = \"http://localhost:11434/v1\"\nenv = \"\"\n\
             models = [\"llama3.2:3b\", { id = \"qwen3\", size = \"small\", context_window = 40960, levels = [\"low\"] }]\n",
        )
        .unwrap();
        let ids: Vec<_> = config.models.iter().map(|model| model.0.id.as_str()).collect();
        assert_eq!(ids, ["llama3.2:3b", "qwen3"]);
        assert_eq!((config.models[1].0.size, config.env), (ModelSize::Small, Some(Variables::default())));
        let command = "key_command = [\"gcloud\", \"auth\"]\nkey_command_ms = 30000";
        let config: ProviderConfig = toml::from_str(command).unwrap();
        assert_eq!(config.key_command.as_ref().unwrap().within(None).to_string(), "gcloud auth");
        assert_eq!((config.key_command_ms, config.problem()), (Some(30_000), None));
        for env in ["\"A\"", "\"\"", "[\"A\", \"B\"]"] {
            let config: ProviderConfig = toml::from_str(&format!("env = {env}\n{command}")).unwrap();
            assert_eq!(config.problem(), Some("a key has one source: set `env` or `key_command`, not both"));
        }
        for (text, words) in [
            ("orgin = \"x\"", "unknown field `orgin`"),
            ("env = \"sk-12345678\"", "invalid name of an environment variable"),
            ("env = [\"A\", \"sk-12345678\"]", "invalid name of an environment variable"),
            ("key_command = [\"./sk-12345678\"]", "a name without '/'"),
            ("models = [\"a b\"]", "1 to 128 visible ASCII characters"),
            ("models = [{ size = \"small\" }]", "missing field `id`"),
            ("models = [{ id = \"x\", level = 1 }]", "unknown field `level`"),
            ("models = [{ id = \"x\", price = { input = \"2,50\", output = \"1\" } }]", "'2,50' is not an amount"),
            ("models = [{ id = \"x\", price = { input = \"2\" } }]", "missing field `output`"),
            ("models = [{ id = \"x\", price = { input = 2.5, output = \"1\" } }]", "an amount in US dollars in quotes"),
            ("options = { \"host:purpose\" = \"turn\" }", "option 'host:purpose' is reserved"),
        ] {
            let error = toml::from_str::<ProviderConfig>(text).unwrap_err();
            let message = error.message();
            assert!(message.contains(words) && !message.contains("12345"), "{text}: {message}");
        }
    }
}

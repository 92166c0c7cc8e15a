use patchbay_core::text;
use serde::{Deserialize, Serialize};

/// What the system must be and have for a skill to count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Eligibility {
    /// It is one of these: `linux`, `darwin`, `windows`. Empty: any.
    pub os: Vec<String>,
    /// These environment variables are set and not empty.
    pub env: Vec<String>,
    /// These programs are on the path.
    pub binaries: Vec<String>,
}

/// The system, as far as eligibility asks.
pub trait Platform {
    /// `linux`, `darwin`, `windows`, …
    fn os(&self) -> &str;
    /// Whether a variable is set and not empty.
    fn has_env(&self, name: &str) -> bool;
    /// Whether a program is on the path.
    fn has_binary(&self, name: &str) -> bool;
}

impl Eligibility {
    pub(crate) fn cleaned(self) -> Self {
        let clean = |list: Vec<String>| list.iter().map(|text| text::excerpt(text, 100)).collect();
        Self { os: clean(self.os), env: clean(self.env), binaries: clean(self.binaries) }
    }

    /// What is not as demanded, in the words of a diagnostic; none if all is.
    pub(crate) fn unmet(&self, platform: &dyn Platform) -> Option<String> {
        let os = platform.os();
        if !self.os.is_empty() && !self.os.iter().any(|wanted| wanted == os) {
            return Some(format!("OS '{os}' not in [{}].", self.os.join(", ")));
        }
        let missing = |list: &[String], has: &dyn Fn(&str) -> bool| {
            let missing: Vec<_> = list.iter().map(String::as_str).filter(|name| !has(name)).collect();
            (!missing.is_empty()).then(|| missing.join(", "))
        };
        if let Some(names) = missing(&self.env, &|name| platform.has_env(name)) {
            return Some(format!("Missing environment: {names}."));
        }
        missing(&self.binaries, &|name| platform.has_binary(name)).map(|names| format!("Missing binaries: {names}."))
    }
}

//! `/providers [refresh]`: lists the providers and their states; `refresh` requests the models from their APIs first.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use serde_json::json;

use super::{BuiltIn, CommandKind};

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Shows,
    ..BuiltIn::new(
        Spec {
            name: "providers",
            argument: Argument::Optional { usage: "[refresh]" },
            summary: "List the model providers; refresh: ask them for their models first",
            completion: Completion::Words(&["refresh"]),
        },
        |line, text| {
            Box::pin(async move {
                let refreshed = match text {
                    "" => Vec::new(),
                    "refresh" => match line.session.host.providers.refresh(None).await {
                        Ok(refreshed) => refreshed,
                        Err(error) => return Outcome::from(error).into(),
                    },
                    _ => return Outcome::error(Code::InvalidArgs, "/providers accepts 'refresh' or nothing.").into(),
                };
                let mut providers = line.session.host.providers.list().await;
                // If no model can be used, no provider is marked as in use.
                if let Ok(choice) = line.session.model_of(&line.agent).await
                    && let Some(provider) =
                        providers.iter_mut().find(|provider| provider.name == choice.provider.as_str())
                {
                    provider.in_use = Some(choice.as_argument());
                }
                let mut lines: Vec<_> = refreshed.iter().map(|of| format!("{}: {}", of.provider, of.text)).collect();
                if text == "refresh" && lines.is_empty() {
                    lines.push("No provider can list its models.".to_owned());
                }
                if !lines.is_empty() {
                    lines.push(String::new());
                }
                lines.push(patchbay_provider::render(&providers));
                Outcome::ok(Code::ProvidersListed, lines.join("\n")).with_data(json!({"providers": providers})).into()
            })
        },
    )
};

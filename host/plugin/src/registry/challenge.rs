//! Parses the header `WWW-Authenticate`, in which a registry describes how to sign in.

/// The kind of sign-in that a registry requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User name and password, in each request.
    Basic,
    /// A token, which `realm` issues for `service`.
    Bearer { realm: String, service: Option<String> },
}

/// Parses the values of the header. If there are several challenges, a token is preferred, because leaking it does less harm than
/// leaking a password.
pub(super) fn parse<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Challenge> {
    let challenges: Vec<Challenge> = values.into_iter().filter_map(one).collect();
    challenges.iter().find(|challenge| **challenge != Challenge::Basic).or(challenges.first()).cloned()
}

/// Parses the first challenge of a header.
fn one(value: &str) -> Option<Challenge> {
    let (scheme, rest) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service) = (None, None);
    let mut rest = rest.trim_start();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = parameter(after.trim_start())?;
        match name.trim().to_ascii_lowercase().as_str() {
            "realm" => realm = Some(value),
            "service" => service = Some(value),
            _ => {}
        }
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    Some(Challenge::Bearer { realm: realm?, service })
}

/// Returns the value at the start of `text`, which may be quoted, and the text after it.
fn parameter(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(',').unwrap_or(text.len());
        return Some((text[..end].trim().to_owned(), &text[end..]));
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (at, character) in quoted.char_indices() {
        match character {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return Some((value, &quoted[at + 1..])),
            other => {
                value.push(other);
                escaped = false;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_parsed() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
        };
        for (value, wanted) in [
            ("Basic realm=\"x\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://ghcr.io/token\",service=\"ghcr.io\",scope=\"repository:a/b:pull,push\"",
                bearer("https://ghcr.io/token", Some("ghcr.io")),
            ),
            ("bearer scope=a, Realm = \"x\"", bearer("x", None)),
            ("Bearer realm=https://a.org/t, service=s", bearer("https://a.org/t", Some("s"))),
            ("Bearer realm=\"a\\\"b\"", bearer("a\"b", None)),
            ("Bearer realm=\"a", None),
            ("Bearer service=\"a\"", None),
            ("Digest realm=\"a\"", None),
            ("", None),
        ] {
            assert_eq!(parse([value]), wanted, "{value}");
        }
        assert_eq!(parse(["Basic realm=x", "Bearer realm=y"]), bearer("y", None));
    }
}

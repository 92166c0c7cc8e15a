//! Guesses from their names which headers and variables of a server contain secrets.

/// Words in the names of headers and variables whose values are treated as secrets.
const SECRET_WORDS: [&str; 6] = ["auth", "cookie", "key", "password", "secret", "token"];

/// Returns whether the value of the header or the variable `name` is treated as a secret.
pub(super) fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_found_in_any_case() {
        for name in ["Authorization", "cookie", "X-API-Key", "GITHUB_TOKEN", "DB_PASSWORD", "client_secret"] {
            assert!(names_secret(name), "{name}");
        }
        for name in ["Accept", "X-Team", "GITHUB_HOST", "HOME", "PROJECT_ROOT"] {
            assert!(!names_secret(name), "{name}");
        }
    }
}

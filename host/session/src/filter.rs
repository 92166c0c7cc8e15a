//! Filters names by the letters the user has typed. Lower-case letters ignore case; upper-case letters match only
//! themselves. Used by `complete` and `workspace_files`.

/// Keeps the items whose name begins with `typed`. If there are none, keeps the items whose name contains the letters of `typed`
/// in the same order.
pub(crate) fn by_name<T>(items: Vec<T>, typed: &str, name: impl Fn(&T) -> &str) -> Vec<T> {
    let fits: fn(&str, &str) -> bool = match items.iter().any(|item| rest(name(item), typed).is_some()) {
        true => |name, typed| rest(name, typed).is_some(),
        false => has_letters,
    };
    items.into_iter().filter(|item| fits(name(item), typed)).collect()
}

/// Returns the rest of `text` after `typed`, or `None` if `text` does not begin with it.
pub(crate) fn rest<'a>(text: &'a str, typed: &str) -> Option<&'a str> {
    let mut characters = text.chars();
    let begins = typed.chars().all(|typed| characters.next().is_some_and(|character| fits(character, typed)));
    begins.then_some(characters.as_str())
}

/// Returns whether `text` contains the letters of `typed` in the same order, possibly with others between them.
pub(crate) fn has_letters(text: &str, typed: &str) -> bool {
    let mut characters = text.chars();
    typed.chars().all(|typed| characters.any(|character| fits(character, typed)))
}

fn fits(character: char, typed: char) -> bool {
    character == typed || character.to_lowercase().eq([typed])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_begin_with_the_text_exclude_others() {
        let names = |typed| by_name(vec!["skills", "reload_skills", "skill", "retry"], typed, |name| name);
        assert_eq!(names(""), ["skills", "reload_skills", "skill", "retry"]);
        assert_eq!(names("sk"), ["skills", "skill"]);
        assert_eq!(names("rls"), ["reload_skills"]);
        assert_eq!(names("rx"), [""; 0]);
    }

    #[test]
    fn small_letters_fit_capitals_but_not_the_reverse() {
        assert_eq!(rest("README.md", "read"), Some("ME.md"));
        assert_eq!(rest("readme.md", "READ"), None);
        assert!(has_letters("ÄRGER.txt", "är.t") && !has_letters("abc", "cb"));
        assert_eq!(rest("a", "ab"), None);
    }
}

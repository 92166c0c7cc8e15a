//! Puts the text after a command into the instructions of a skill.
//!
//! Called by the crate `session` for a person's command and by the crate `agent` for `use_skill`.

/// Replaces the placeholders of `template` by the input, once; what is put in is not searched again.
///
/// - `$ARGUMENTS` and `$INPUT`: the whole input, as typed.
/// - `$0`, `$1` …, and `$ARGUMENTS[N]`: the words of the input, from 0, without shell quotes. A placeholder of a missing
///   word stays as it is.
///
/// A placeholder is a whole word: `$INPUT_FILE` and `$1st` stay as they are. If nothing was replaced and there is an input, it
/// follows the template.
pub fn with_arguments(template: &str, input: &str) -> String {
    let words = words(input);
    let mut text = String::with_capacity(template.len() + input.len());
    let (mut rest, mut replaced) = (template, false);
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match placeholder(rest) {
            Some((Placeholder::All, after)) => {
                text.push_str(input);
                (rest, replaced) = (after, true);
            }
            Some((Placeholder::Word(number), after)) if number < words.len() => {
                text.push_str(&words[number]);
                (rest, replaced) = (after, true);
            }
            _ => text.push('$'),
        }
    }
    text.push_str(rest);
    if !replaced && !input.is_empty() {
        text.push_str("\n\nARGUMENTS: ");
        text.push_str(input);
    }
    text
}

enum Placeholder {
    All,
    Word(usize),
}

/// Parses the placeholder that follows a `$`. Returns it and the text after it.
fn placeholder(text: &str) -> Option<(Placeholder, &str)> {
    if let Some(after) = text.strip_prefix("ARGUMENTS[")
        && let Some((number, after)) = number(after)
        && let Some(after) = after.strip_prefix(']')
    {
        return Some((Placeholder::Word(number), after));
    }
    let all = text.strip_prefix("ARGUMENTS").or_else(|| text.strip_prefix("INPUT"));
    let (placeholder, after) = match all {
        Some(after) => (Placeholder::All, after),
        None => number(text).map(|(number, after)| (Placeholder::Word(number), after))?,
    };
    // Letters of scripts without spaces do not continue a placeholder.
    let is_longer = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    (!is_longer).then_some((placeholder, after))
}

/// Parses the digits at the start of `text`; at most three, since an input has no thousand words.
fn number(text: &str) -> Option<(usize, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, after) = text.split_at(digits);
    let number = number.parse().ok().filter(|_| digits <= 3)?;
    Some((number, after))
}

/// Splits a text at white space. Quotes, single or double, keep white space in a word and are taken off. A quote that is not
/// closed is an ordinary character.
fn words(input: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut rest = input;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if matches!(c, '"' | '\'')
            && let Some((quoted, after)) = rest.split_once(c)
        {
            // Quotes without content are an empty word.
            word.get_or_insert_default().push_str(quoted);
            rest = after;
        } else if c.is_whitespace() {
            words.extend(word.take());
        } else {
            word.get_or_insert_default().push(c);
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn placeholders_are_replaced_once() {
        for (template, input, expected) in [
            ("Go to $INPUT.", "the sea", "Go to the sea."),
            ("Go to $ARGUMENTS; $ARGUMENTS.", "the $INPUT", "Go to the $INPUT; the $INPUT."),
            ("From $0 to $1.", "here there", "From here to there."),
            ("From $ARGUMENTS[0] to $ARGUMENTS[1].", "here 'over there'", "From here to over there."),
            ("$0$1 $2", "a \"\" $0", "a $0"),
            ("$1 stays", "one", "$1 stays\n\nARGUMENTS: one"),
            ("$0, $1", "one", "one, $1"),
            ("It costs $5.", "", "It costs $5."),
            ("Look.", "at this", "Look.\n\nARGUMENTS: at this"),
            ("Look.", "", "Look."),
            ("[$ARGUMENTS]", "", "[]"),
            ("$ARGUMENTS[x] $ARGUMENTS[9]", "a", "a[x] $ARGUMENTS[9]"),
            ("$", "a", "$\n\nARGUMENTS: a"),
            ("$99999999999999999999 $é", "", "$99999999999999999999 $é"),
            // Names that only begin like a placeholder.
            ("cp \"$INPUT_FILE\" out", "", "cp \"$INPUT_FILE\" out"),
            ("cp \"$INPUT_FILE\" out", "a", "cp \"$INPUT_FILE\" out\n\nARGUMENTS: a"),
            ("$INPUTS $ARGUMENTS_DIR $ARGUMENTS2 $INPUT", "a", "$INPUTS $ARGUMENTS_DIR $ARGUMENTS2 a"),
            ("$0th $1_x $0.", "a b", "$0th $1_x a."),
            ("$INPUT/b $INPUTを $ARGUMENTS[0]_x", "a", "a/b aを a_x"),
            // A quote that is not closed.
            ("$0 $1 $2", "don't touch prod", "don't touch prod"),
            ("$0|$1|$2", "5\" 'a b' it's", "5\"|a b|it's"),
        ] {
            assert_eq!(with_arguments(template, input), expected, "{template} with {input}");
        }
    }

    proptest! {
        #[test]
        fn any_template_and_input_is_accepted(template in "[$0-9A-Z\\[\\]é ]{0,20}", input in "\\PC{0,20}") {
            let text = with_arguments(&template, &input);
            prop_assert!(template.contains('$') || text.starts_with(&template));
        }
    }
}

//! Inserts the text after a command into the instructions of a skill.
//!
//! Called by the crate `session` for a user's command and by the crate `agent` for `use_skill`. A SKILL.md can repeat its input
//! a hundred thousand times, so the length of the result is computed before any of it is built.

use patchbay_core::{Code, text};

/// Size limit of an input, in bytes. Longer text belongs in a file, which the model can read with a tool.
pub const INPUT_BYTES: usize = 64 << 10;
/// Size limit of instructions with their input, in bytes: four times the longest SKILL.md, and more than most models can read.
pub const INSTRUCTIONS_BYTES: usize = 1 << 20;

/// Why an input was not inserted into the instructions of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsError {
    /// The input is longer than [`INPUT_BYTES`].
    #[error(
        "the input has {} bytes; the limit for a skill is {} bytes (64 KiB). Write it to a file and name the file in the input.",
        commas(.bytes),
        commas(&INPUT_BYTES)
    )]
    Input {
        /// The length of the input in bytes.
        bytes: usize,
    },
    /// The instructions would be longer than [`INSTRUCTIONS_BYTES`].
    #[error(
        "the instructions would have {} bytes with this input, which SKILL.md repeats {} times; the limit is {} bytes (1 MiB). \
         Use a shorter input, or edit the skill.",
        commas(.bytes),
        commas(.placeholders),
        commas(&INSTRUCTIONS_BYTES)
    )]
    Instructions {
        /// The length that the instructions would have, in bytes.
        bytes: usize,
        /// Number of placeholders that the input replaces.
        placeholders: usize,
    },
}

impl ArgumentsError {
    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::Input { .. } => Code::LimitInput,
            Self::Instructions { .. } => Code::LimitInstructions,
        }
    }
}

/// Replaces the placeholders in `template` with the input. Inserted text is not expanded again.
///
/// - `$ARGUMENTS` and `$INPUT`: the whole input, as typed.
/// - `$0`, `$1` …, and `$ARGUMENTS[N]`: the words of the input, from 0, without shell quotes. The placeholder of a missing word is
///   left unchanged.
///
/// A placeholder is a whole word: `$INPUT_FILE` and `$1st` are left unchanged. If nothing was replaced, any input is appended to
/// the template.
///
/// # Errors
/// [`ArgumentsError`] if the input or the result would be too long. The result is not built in this case.
pub fn with_arguments(template: &str, input: &str) -> Result<String, ArgumentsError> {
    if input.len() > INPUT_BYTES {
        return Err(ArgumentsError::Input { bytes: input.len() });
    }
    let words = words(input);
    let mut pieces = Vec::new();
    let (mut rest, mut placeholders) = (template, 0);
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        pieces.push(before);
        rest = &after[1..];
        let replaced = placeholder(rest).and_then(|(placeholder, after)| match placeholder {
            Placeholder::All => Some((input, after)),
            Placeholder::Word(number) => Some((words.get(number)?.as_str(), after)),
        });
        match replaced {
            Some((by, after)) => {
                pieces.push(by);
                rest = after;
                placeholders += 1;
            }
            None => pieces.push("$"),
        }
    }
    pieces.push(rest);
    if placeholders == 0 && !input.is_empty() {
        pieces.extend(["\n\nARGUMENTS: ", input]);
    }
    let bytes = pieces.iter().fold(0, |bytes: usize, piece| bytes.saturating_add(piece.len()));
    if bytes > INSTRUCTIONS_BYTES {
        return Err(ArgumentsError::Instructions { bytes, placeholders });
    }
    Ok(pieces.concat())
}

fn commas(number: &usize) -> String {
    text::with_commas(*number as u64)
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
    // Only ASCII letters continue a word, because some scripts don't put spaces between words.
    let is_longer = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    (!is_longer).then_some((placeholder, after))
}

/// Parses the digits at the start of `text`: at most three, because no input needs a thousand words.
fn number(text: &str) -> Option<(usize, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, after) = text.split_at(digits);
    let number = number.parse().ok().filter(|_| digits <= 3)?;
    Some((number, after))
}

/// Splits an input at white space. Single or double quotes keep white space in a word, and are removed. An unclosed quote is an
/// ordinary character.
fn words(input: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut rest = input;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if matches!(c, '"' | '\'')
            && let Some((quoted, after)) = rest.split_once(c)
        {
            // Empty quotes are an empty word.
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
            // An unclosed quote is an ordinary character.
            ("$0 $1 $2", "don't touch prod", "don't touch prod"),
            ("$0|$1|$2", "5\" 'a b' it's", "5\"|a b|it's"),
        ] {
            assert_eq!(with_arguments(template, input).as_deref(), Ok(expected), "{template} with {input}");
        }
    }

    #[test]
    fn length_is_computed_before_the_text_is_built() {
        // A hostile repository's SKILL.md. If these were built, they would take 390 MB and 8.5 GB.
        let template = "$0".repeat(130_000);
        for input in [3_000, INPUT_BYTES] {
            let error = with_arguments(&template, &"x".repeat(input)).unwrap_err();
            assert_eq!(error, ArgumentsError::Instructions { bytes: 130_000 * input, placeholders: 130_000 });
            assert_eq!(error.code(), Code::LimitInstructions);
        }
        let error = with_arguments(&"$INPUT ".repeat(1_000), &"x".repeat(2_000)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the instructions would have 2,001,000 bytes with this input, which SKILL.md repeats 1,000 times; the limit is \
             1,048,576 bytes (1 MiB). Use a shorter input, or edit the skill."
        );
        // The limits themselves are allowed.
        let longest = with_arguments(&"$0".repeat(16), &"x".repeat(INPUT_BYTES)).unwrap();
        assert_eq!(longest.len(), INSTRUCTIONS_BYTES);
        assert!(with_arguments(&format!("{}.", "$0".repeat(16)), &"x".repeat(INPUT_BYTES)).is_err());
        let error = with_arguments("", &"x".repeat(INPUT_BYTES + 1)).unwrap_err();
        assert_eq!((error, error.code()), (ArgumentsError::Input { bytes: 65_537 }, Code::LimitInput));
        assert_eq!(
            error.to_string(),
            "the input has 65,537 bytes; the limit for a skill is 65,536 bytes (64 KiB). Write it to a file and name the file \
             in the input."
        );
    }

    proptest! {
        #[test]
        fn any_template_and_input_is_accepted(template in "[$0-9A-Z\\[\\]é ]{0,20}", input in "\\PC{0,20}") {
            let text = with_arguments(&template, &input).unwrap();
            prop_assert!(template.contains('$') || text.starts_with(&template));
        }
    }
}

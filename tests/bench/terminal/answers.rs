//! Long answers that each repeat one Markdown construct. Each function of [`SHAPES`] returns a text of at least the given number of
//! bytes.

/// A name, and the function that returns the text.
type Shape = (&'static str, fn(usize) -> String);

pub const SHAPES: [Shape; 5] = [
    ("a list", items),
    ("paragraphs", paragraphs),
    ("one paragraph", paragraph),
    ("one block of code", code),
    ("one table", table),
];

const WORDS: &str = "some *words* of a long answer with `code` in them, ";

/// A list of this many lines.
pub fn lines(count: usize) -> String {
    (0..count).map(|number| format!("- item {number}\n")).collect()
}

fn items(bytes: usize) -> String {
    repeated(bytes, |number| format!("- item {number:06} has **some** words `x`\n"))
}

fn paragraphs(bytes: usize) -> String {
    repeated(bytes, |number| format!("Paragraph {number}: {}end.\n\n", WORDS.repeat(5)))
}

fn paragraph(bytes: usize) -> String {
    WORDS.repeat(bytes.div_ceil(WORDS.len()))
}

fn code(bytes: usize) -> String {
    let lines = repeated(bytes, |number| format!("let number_{number} = call(\"text\", {number}); // why\n"));
    format!("```rust\n{lines}```\n")
}

fn table(bytes: usize) -> String {
    let rows = repeated(bytes, |number| format!("| row {number} | **{}** | some words |\n", number * 7));
    format!("| name | number | text |\n| --- | ---: | --- |\n{rows}")
}

fn repeated(bytes: usize, piece: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < bytes {
        text += &piece(number);
        number += 1;
    }
    text
}

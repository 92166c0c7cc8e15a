//! Standard output of the commands that print and end.

use std::{
    fmt,
    io::{self, Write as _},
};

/// Prints a line as `println!` does, and does not panic where nobody reads.
macro_rules! say {
    ($($text:tt)*) => { $crate::out::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// A reader that has gone, such as `head`, has what it wanted. Any other trouble ends the process.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("Error: standard output cannot be written: {error}.");
            std::process::exit(crate::FAILED.into());
        }
        _ => {}
    }
}

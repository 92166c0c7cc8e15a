//! Standard output of subcommands that print and exit, and standard error.

use std::{
    fmt,
    io::{self, Write as _},
};

/// Prints a line like `println!`, without a panic if standard output is closed.
macro_rules! say {
    ($($text:tt)*) => { $crate::out::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Writes a line. A closed pipe, as with `| head`, is ignored; any other error ends the process.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    print_line(text);
}

/// Like [`line()`], but returns false if the pipe is closed, which lets callers end a long output early.
pub(crate) fn print_line(text: fmt::Arguments<'_>) -> bool {
    match writeln!(io::stdout().lock(), "{text}") {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => false,
        Err(error) => {
            note(&format!("Error: cannot write to standard output: {error}."));
            std::process::exit(crate::FAILED.into());
        }
    }
}

/// Prints a line on standard error. Unlike `eprintln!`, it does not panic if standard error is closed.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

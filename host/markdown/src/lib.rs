//! Renders Markdown to styled lines while it streams. The terminal front calls it for the answers of models.
//!
//! This crate is pure: it has no terminal, no clock and no I/O. Lines are committed block by block and can be copied:
//! everything is at column 0, without boxes, gutters or trailing blanks, and code is never broken.
//!
//! - [`MarkdownRenderer`]: chunks in, finished lines out. `blocks` splits the stream, with `marks` and `containers` for
//!   the beginnings of lines; `paragraph`, `table` and `code` are the blocks that stay open over several lines.
//! - `inline`, `links` and `wrap` render the text of a block; `settled` finds the part of a growing paragraph that is
//!   final.
//! - [`StyledLine`] and [`TextSpan`]: the output; [`StyledLine::to_ansi`] writes it for a terminal.
//! - `clean` keeps control, bidi and other hidden characters out of the output.
//!
//! Beyond the following bounds, the output is simpler but still complete. Containers nest up to 16 deep. Inline source
//! over 16 KiB is not parsed, and emphasis in a growing paragraph must close within 4 KiB. The column widths of a table
//! are fixed after 32 KiB. Code has no colours after 512 KiB, or after a line of over 1,000 bytes. Lines over 256 KiB
//! are broken.
//!
//! ```
//! use patchbay_markdown::{MarkdownRenderer, Palette, RenderOptions};
//!
//! let options = RenderOptions { columns: 40, palette: Palette::NoColour, ..RenderOptions::default() };
//! let mut renderer = MarkdownRenderer::new(options);
//! let mut lines = renderer.push("# Tit");
//! assert!(lines.is_empty());
//! assert_eq!(renderer.tail(5)[0].text(), "Tit");
//! lines.extend(renderer.push("le\n\n- one\n* two"));
//! lines.extend(renderer.finish());
//! let text: Vec<String> = lines.iter().map(|line| line.text()).collect();
//! assert_eq!(text, ["Title", "", "- one", "- two"]);
//! assert_eq!(lines[0].to_ansi(), "\x1b[1mTitle\x1b[0m");
//! ```

mod blocks;
mod clean;
mod code;
mod containers;
mod highlight;
mod inline;
mod line;
mod links;
mod marks;
mod options;
mod paragraph;
mod renderer;
mod settled;
mod style;
mod table;
mod wrap;

pub use line::StyledLine;
pub use options::{Palette, RenderOptions, WrapMode};
pub use renderer::MarkdownRenderer;
pub use style::{TerminalColour, TextSpan, TextStyle};

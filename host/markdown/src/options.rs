//! The options of a renderer. Fronts set them before they render.

/// How prose is broken. Code is never broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WrapMode {
    /// Between words, at [`RenderOptions::columns`].
    #[default]
    Words,
    /// Not at all: a paragraph is one line, which the terminal wraps, and wraps again when its window is resized.
    Terminal,
}

/// Which styles the renderer may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// The terminal's 16 colours and attributes.
    #[default]
    Colour,
    /// Attributes only, for `NO_COLOR`. Inline code keeps its backticks, because nothing else would distinguish it.
    NoColour,
}

/// The options of a renderer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderOptions {
    /// Width of prose and tables in columns. Values are clamped to 10 to 1,000.
    pub columns: usize,
    /// How the lines of prose are broken.
    pub wrap: WrapMode,
    /// Whether spans carry link targets, which become OSC 8 sequences.
    pub links: bool,
    /// Which styles the renderer may use.
    pub palette: Palette,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self { columns: 80, wrap: WrapMode::Words, links: true, palette: Palette::Colour }
    }
}

//! The attributes of a start tag that matter for the text.

/// Maximum number of bytes of a value. Longer values are cut, but a longer address is ignored.
const MAX_VALUE: usize = 2048;

/// The attributes of one start tag. If a name occurs several times, the first value is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) href: Option<String>,
    pub(crate) alt: Option<String>,
    pub(crate) class: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) content: Option<String>,
    pub(crate) start: Option<String>,
    pub(crate) colspan: Option<String>,
    role: Option<String>,
    style: Option<String>,
    aria_hidden: Option<String>,
    is_hidden: bool,
    /// The attribute to which the next value belongs.
    current: Option<Name>,
}

#[derive(Clone, Copy, Debug)]
enum Name {
    Href,
    Alt,
    Class,
    Named,
    Content,
    Start,
    Colspan,
    Role,
    Style,
    AriaHidden,
}

impl Attributes {
    pub(crate) fn name(&mut self, name: &[u8]) {
        self.current = match name {
            b"href" => Some(Name::Href),
            b"alt" => Some(Name::Alt),
            b"class" => Some(Name::Class),
            b"name" | b"property" => Some(Name::Named),
            b"content" => Some(Name::Content),
            b"start" => Some(Name::Start),
            b"colspan" => Some(Name::Colspan),
            b"role" => Some(Name::Role),
            b"style" => Some(Name::Style),
            b"aria-hidden" => Some(Name::AriaHidden),
            b"hidden" => {
                self.is_hidden = true;
                None
            }
            _ => None,
        };
    }

    /// Adds the value of the current attribute.
    pub(crate) fn value(&mut self, value: &[u8]) {
        let Some(name) = self.current.take() else { return };
        if matches!(name, Name::Href) && value.len() > MAX_VALUE {
            return;
        }
        let place = match name {
            Name::Href => &mut self.href,
            Name::Alt => &mut self.alt,
            Name::Class => &mut self.class,
            Name::Named => &mut self.name,
            Name::Content => &mut self.content,
            Name::Start => &mut self.start,
            Name::Colspan => &mut self.colspan,
            Name::Role => &mut self.role,
            Name::Style => &mut self.style,
            Name::AriaHidden => &mut self.aria_hidden,
        };
        place.get_or_insert_with(|| String::from_utf8_lossy(&value[..value.len().min(MAX_VALUE)]).into_owned());
    }

    /// Returns true if the element is hidden or belongs to the frame around a page. The contents of such an element are left out.
    pub(crate) fn hides(&self) -> bool {
        let style = self.style.as_deref().is_some_and(|style| {
            let style: String = style.chars().filter(|char| !char.is_whitespace()).collect();
            let style = style.to_ascii_lowercase();
            style.contains("display:none") || style.contains("visibility:hidden")
        });
        let role = matches!(
            self.role(),
            "navigation"
                | "search"
                | "contentinfo"
                | "menu"
                | "menubar"
                | "toolbar"
                | "tablist"
                | "dialog"
                | "alertdialog"
        );
        // Parts that a site does not print, and the language and edit links of a wiki.
        let class = self.class.as_deref().is_some_and(|class| {
            class.split_ascii_whitespace().any(|class| {
                ["noprint", "no-print", "d-print-none", "interlanguage-link", "mw-editsection", "mw-jump-link"]
                    .contains(&class)
            })
        });
        self.is_hidden || class || style || role || self.aria_hidden.as_deref() == Some("true")
    }

    /// Returns true if the element is marked as the main contents of the page.
    pub(crate) fn is_main(&self) -> bool {
        self.role() == "main"
    }

    /// Returns the language of code from a class such as `language-rust`.
    pub(crate) fn language(&self) -> Option<&str> {
        let classes = self.class.as_deref()?.split_ascii_whitespace();
        let mut languages = classes.filter_map(|class| {
            ["language-", "lang-", "highlight-source-"].iter().find_map(|start| class.strip_prefix(start))
        });
        languages.find(|language| {
            (1..=20).contains(&language.len())
                && language.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+#-_.".contains(&byte))
        })
    }

    fn role(&self) -> &str {
        self.role.as_deref().unwrap_or_default().trim()
    }
}

//! The elements that matter, and their properties.

/// An element by name. Names without a meaning here are `Other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    Other,
    A,
    Article,
    Aside,
    B,
    Base,
    Blockquote,
    Br,
    Button,
    Caption,
    Code,
    Dd,
    Del,
    Div,
    Dl,
    Dt,
    Em,
    Figcaption,
    Footer,
    H1,
    H2,
    H3,
    H4,
    H5,
    H6,
    Hr,
    Img,
    Li,
    Main,
    Meta,
    Nav,
    Ol,
    P,
    Pre,
    Q,
    Section,
    Select,
    Span,
    Sub,
    Sup,
    Summary,
    Svg,
    Table,
    Tbody,
    Td,
    Template,
    Th,
    Thead,
    Title,
    Tr,
    Ul,
    /// Elements that are never shown: scripts, styles, embedded contents.
    Gone,
    /// Void elements without text.
    Void,
}

pub(crate) const TAGS: usize = Tag::Void as usize + 1;

impl Tag {
    /// Returns the element for a name in lower case.
    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            b"a" => Self::A,
            b"article" => Self::Article,
            b"aside" => Self::Aside,
            b"b" | b"strong" => Self::B,
            b"base" => Self::Base,
            b"blockquote" => Self::Blockquote,
            b"br" => Self::Br,
            b"button" => Self::Button,
            b"caption" => Self::Caption,
            b"code" | b"kbd" | b"samp" | b"tt" => Self::Code,
            b"dd" => Self::Dd,
            b"del" | b"s" | b"strike" => Self::Del,
            b"div" | b"center" | b"fieldset" | b"form" | b"address" | b"legend" => Self::Div,
            b"dl" => Self::Dl,
            b"dt" => Self::Dt,
            b"em" | b"i" | b"cite" | b"dfn" | b"var" => Self::Em,
            b"figcaption" => Self::Figcaption,
            b"footer" => Self::Footer,
            b"h1" => Self::H1,
            b"h2" => Self::H2,
            b"h3" => Self::H3,
            b"h4" => Self::H4,
            b"h5" => Self::H5,
            b"h6" => Self::H6,
            b"hr" => Self::Hr,
            b"img" => Self::Img,
            b"li" => Self::Li,
            b"main" => Self::Main,
            b"meta" => Self::Meta,
            b"nav" => Self::Nav,
            b"ol" => Self::Ol,
            b"p" => Self::P,
            b"pre" | b"listing" => Self::Pre,
            b"q" => Self::Q,
            b"section" | b"header" | b"hgroup" | b"details" | b"figure" | b"search" => Self::Section,
            b"select" | b"datalist" => Self::Select,
            b"span" => Self::Span,
            b"sub" => Self::Sub,
            b"sup" => Self::Sup,
            b"summary" => Self::Summary,
            b"svg" | b"math" => Self::Svg,
            b"table" => Self::Table,
            b"tbody" | b"tfoot" => Self::Tbody,
            b"td" => Self::Td,
            b"template" => Self::Template,
            b"th" => Self::Th,
            b"thead" => Self::Thead,
            b"title" => Self::Title,
            b"tr" => Self::Tr,
            b"ul" | b"menu" | b"dir" => Self::Ul,
            b"script" | b"style" | b"noscript" | b"iframe" | b"object" | b"canvas" | b"audio" | b"video" | b"map"
            | b"textarea" | b"noframes" | b"noembed" | b"dialog" => Self::Gone,
            b"area" | b"col" | b"embed" | b"input" | b"link" | b"param" | b"source" | b"track" | b"wbr" | b"frame"
            | b"keygen" | b"bgsound" | b"basefont" => Self::Void,
            _ => Self::Other,
        }
    }

    /// Returns true for a void element, which has neither contents nor an end tag.
    pub(crate) fn is_void(self) -> bool {
        matches!(self, Self::Base | Self::Br | Self::Hr | Self::Img | Self::Meta | Self::Void)
    }

    /// Returns true for a block element.
    pub(crate) fn is_block(self) -> bool {
        !self.is_void()
            && !matches!(
                self,
                Self::Other
                    | Self::A
                    | Self::B
                    | Self::Button
                    | Self::Code
                    | Self::Del
                    | Self::Em
                    | Self::Gone
                    | Self::Q
                    | Self::Select
                    | Self::Span
                    | Self::Sub
                    | Self::Sup
                    | Self::Svg
                    | Self::Template
                    | Self::Title
            )
    }

    /// Returns true for an element whose contents are never shown.
    pub(crate) fn is_gone(self) -> bool {
        matches!(self, Self::Gone | Self::Svg | Self::Template | Self::Select | Self::Button | Self::Nav)
    }

    /// Returns true for a cell or a caption. From inside it, only parts of the same table can be closed outside of it.
    pub(crate) fn is_cell(self) -> bool {
        matches!(self, Self::Td | Self::Th | Self::Caption)
    }

    /// Returns true for a part of a table, which can be closed from anywhere inside it except from a nested table.
    pub(crate) fn is_of_table(self) -> bool {
        self.is_cell() || matches!(self, Self::Tr | Self::Tbody | Self::Thead)
    }

    /// Returns 1 to 6 for a heading.
    pub(crate) fn heading(self) -> Option<usize> {
        (Self::H1 as u8..=Self::H6 as u8).contains(&(self as u8)).then(|| (self as u8 - Self::H1 as u8) as usize + 1)
    }
}

pub(crate) const HEADINGS: [Tag; 6] = [Tag::H1, Tag::H2, Tag::H3, Tag::H4, Tag::H5, Tag::H6];

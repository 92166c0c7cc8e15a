//! References to images, PDFs and text files that the user attached to a message. Rows contain the references; the contents are
//! in the store. `session` writes both, `agent` sends the contents to models, and fronts show the names.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Digest, text};

/// Media type of attached text files.
pub const TEXT_MEDIA: &str = "text/plain";
const PDF_MEDIA: &str = "application/pdf";

/// A file that is attached to a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The path that the user gave, cleaned, on one line; empty for content without a name.
    pub name: String,
    /// The media type, detected from the content: an image type, `application/pdf`, or [`TEXT_MEDIA`].
    pub media_type: String,
    /// The digest of the content in the store.
    pub digest: Digest,
    /// The size of the content in bytes.
    pub size: u64,
}

/// The attachments in the data of a row of kind `user` or `skill`.
#[derive(Serialize, Deserialize)]
struct AttachmentData {
    attachments: Vec<Attachment>,
}

impl Attachment {
    /// Returns the attachments in a row's data; none if the data is of another kind.
    pub fn from_data(data: Option<&Value>) -> Vec<Self> {
        data.and_then(|data| AttachmentData::deserialize(data).ok()).map(|data| data.attachments).unwrap_or_default()
    }

    /// Returns a row's data with these attachments; `None` if there are none.
    pub fn to_data(attachments: &[Self]) -> Option<Value> {
        if attachments.is_empty() {
            return None;
        }
        serde_json::to_value(AttachmentData { attachments: attachments.to_vec() }).ok()
    }

    /// Returns a row's `data` with these attachments added.
    pub fn add_to_data(data: Option<Value>, attachments: &[Self]) -> Option<Value> {
        match (data, Self::to_data(attachments)) {
            (Some(Value::Object(mut data)), Some(Value::Object(added))) => {
                data.extend(added);
                Some(Value::Object(data))
            }
            (data, None) => data,
            (_, added) => added,
        }
    }

    /// Returns the text of a message, or the placeholders of its attachments if it has no text.
    pub fn text_or_placeholders<'a>(content: &'a str, data: Option<&Value>) -> Cow<'a, str> {
        if !content.trim().is_empty() {
            return content.into();
        }
        let attachments = Self::from_data(data);
        attachments.iter().map(Self::placeholder).collect::<Vec<_>>().join(" ").into()
    }

    /// Whether the content is sent to models as text.
    pub fn is_text(&self) -> bool {
        self.media_type == TEXT_MEDIA
    }

    /// Returns a placeholder for places where the content is not shown: `[image: a.png]`.
    pub fn placeholder(&self) -> String {
        self.placeholder_with("")
    }

    /// Returns the text that replaces the content for a model, such as `[image left out: a.png]` if `reason` is ` left out`.
    pub fn placeholder_with(&self, reason: &str) -> String {
        placeholder(&self.media_type, Some(&*self.name).filter(|name| !name.is_empty()), reason)
    }

    /// Returns the line that lists the attachments for the user, such as `Attached: a.png (image/png, 120 KB).`, or `None` if
    /// there are none.
    pub fn summary(attachments: &[Self]) -> Option<String> {
        let each = |Self { name, media_type, size, .. }: &Self| format!("{name} ({media_type}, {})", text::size(*size));
        let all: Vec<String> = attachments.iter().map(each).collect();
        (!all.is_empty()).then(|| format!("Attached: {}.", all.join(", ")))
    }
}

/// Returns the text that replaces a file for a model, such as `[image left out: a.png]`, or `[image left out]` for a file without
/// a name.
pub(crate) fn placeholder(media_type: &str, name: Option<&str>, reason: &str) -> String {
    let kind = match media_type {
        PDF_MEDIA => "PDF",
        media_type if media_type.starts_with("image/") => "image",
        _ => "file",
    };
    match name {
        Some(name) => format!("[{kind}{reason}: {name}]"),
        None => format!("[{kind}{reason}]"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn attachment(name: &str, media_type: &str, size: u64) -> Attachment {
        Attachment { name: name.to_owned(), media_type: media_type.to_owned(), digest: Digest::of(b"x"), size }
    }

    #[test]
    fn data_of_rows_has_the_attachments() {
        let attachments = [attachment("a.png", "image/png", 120_000), attachment("b.txt", TEXT_MEDIA, 3)];
        let data = Attachment::to_data(&attachments).unwrap();
        assert_eq!(data["attachments"][0]["name"], "a.png");
        assert_eq!(Attachment::from_data(Some(&data)), attachments);
        assert_eq!(Attachment::to_data(&[]), None);
        let skill = json!({"skill": "guide"});
        let added = Attachment::add_to_data(Some(skill.clone()), &attachments).unwrap();
        assert_eq!((&added["skill"], Attachment::from_data(Some(&added)).len()), (&json!("guide"), 2));
        assert_eq!(Attachment::add_to_data(Some(skill.clone()), &[]), Some(skill));
        assert_eq!(Attachment::add_to_data(None, &attachments), Some(data.clone()));
        assert_eq!(Attachment::text_or_placeholders("look", Some(&data)), "look");
        assert_eq!(Attachment::text_or_placeholders(" ", Some(&data)), "[image: a.png] [file: b.txt]");
        for other in [None, Some(json!({"notification": 1})), Some(json!({"attachments": [{"name": 1}]}))] {
            assert_eq!(Attachment::from_data(other.as_ref()), []);
        }
    }

    #[test]
    fn attachments_are_named_by_their_kind() {
        let image = attachment("docs/a.png", "image/png", 120_400);
        let pdf = attachment("b.pdf", "application/pdf", 2_449_999);
        let text = attachment("c.txt", TEXT_MEDIA, 999);
        let placeholders = [&image, &pdf, &text].map(Attachment::placeholder);
        assert_eq!(placeholders, ["[image: docs/a.png]", "[PDF: b.pdf]", "[file: c.txt]"]);
        assert_eq!(image.placeholder_with(" left out"), "[image left out: docs/a.png]");
        assert_eq!(placeholder("audio/wav", None, " left out"), "[file left out]");
        assert_eq!(attachment("", "image/png", 1).placeholder(), "[image]");
        let expected = "Attached: docs/a.png (image/png, 120 KB), b.pdf (application/pdf, 2.4 MB), \
                        c.txt (text/plain, 999 bytes).";
        assert_eq!(Attachment::summary(&[image, pdf, text]).as_deref(), Some(expected));
        assert_eq!(Attachment::summary(&[]), None);
    }
}

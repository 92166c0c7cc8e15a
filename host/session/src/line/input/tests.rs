//! Tests of the accepted attachments.

use super::*;

fn message(result: Result<NewAttachment, Outcome>) -> String {
    let refused = result.unwrap_err();
    assert_eq!(refused.code, Code::AttachmentRefused);
    refused.line().into_owned()
}

#[test]
fn kind_of_a_file_follows_from_its_content() {
    for (content, expected) in [
        (&b"\x89PNG\r\n\x1a\nrest"[..], "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89arest", "image/gif"),
        (b"GIF87arest", "image/gif"),
        (b"RIFF\x01\0\0\0WEBPVP8 ", "image/webp"),
        (b"%PDF-1.7\n", "application/pdf"),
        (b"<svg/>", TEXT_MEDIA),
        (b"GIF", TEXT_MEDIA),
        (b"", TEXT_MEDIA),
    ] {
        let attachment = NewAttachment::new("a.exe", content.to_vec()).unwrap();
        assert_eq!((&*attachment.media_type, &*attachment.content), (expected, content));
    }
    let expected = "Error: 'x.bin' is neither text, an image nor a PDF.";
    for content in [&b"\xfe\xff\0a"[..], b"a\0b", b"RIFF\xff\0\0\0WAVE"] {
        assert_eq!(message(NewAttachment::new("x.bin", content.to_vec())), expected);
    }
}

#[test]
fn texts_and_names_are_cleaned() {
    let attachment = NewAttachment::new("a\u{1b}[2J\n\u{202e}b.txt", b"one\r\n\x1b[31mtwo".to_vec()).unwrap();
    assert_eq!((&*attachment.name, &*attachment.content), ("a[2J b.txt", &b"one\n[31mtwo"[..]));
    let reference = attachment.reference();
    assert_eq!((reference.digest, reference.size), (Digest::of(b"one\n[31mtwo"), 11));
    let long = NewAttachment::new(&"x".repeat(5_000), b"x".to_vec()).unwrap();
    assert_eq!(long.name.chars().count(), NAME + 1);
}

#[test]
fn sizes_are_limited_each_and_together() {
    let image = |size: usize| {
        let mut content = b"%PDF-".to_vec();
        content.resize(size, 0);
        content
    };
    let most = usize::try_from(FILE_BYTES).unwrap();
    let whole = NewAttachment::new("a.pdf", image(most)).unwrap();
    let expected = "Error: 'a.pdf' is 10.5 MB; the limit for an attached file is 10 MiB.";
    assert_eq!(message(NewAttachment::new("a.pdf", image(most + 1))), expected);
    let expected = "Error: 'a.txt' is 262 KB; the limit for text is 256 KiB. Name it in your message to let the model read it \
                    with a tool.";
    assert_eq!(message(NewAttachment::new("a.txt", vec![b'a'; TEXT_BYTES + 1])), expected);
    assert!(NewAttachment::new("a.txt", vec![b'a'; TEXT_BYTES]).is_ok());
    let check = |attachments| LineInput { attachments, ..LineInput::from("look") }.check_files(true);
    let rest = NewAttachment::new("b.pdf", image(2 << 20)).unwrap();
    assert!(check(vec![whole.clone(), whole.clone()]).is_ok());
    let refused = check(vec![whole.clone(), whole, rest]).unwrap_err();
    assert_eq!(refused.message, "the attached files are 23.1 MB in total; the limit for one line is 20 MiB.");
    let small = NewAttachment::new("c.txt", b"c".to_vec()).unwrap();
    assert!(check(vec![small.clone(); 20]).is_ok());
    assert_eq!(check(vec![small; 21]).unwrap_err().message, "21 files are attached; the limit of a line is 20.");
}

#[test]
fn commands_have_files_of_any_kind_and_messages_do_not() {
    let wav = b"RIFF\x24\0\0\0WAVEfmt ".to_vec();
    for (declared, content, expected) in [
        (Some("audio/wav"), wav.clone(), "audio/wav"),
        (Some("Audio/WAV"), b"only text".to_vec(), "audio/wav"),
        (Some("audio/wav; rate=1"), wav.clone(), UNKNOWN_MEDIA),
        (Some("audio"), wav.clone(), UNKNOWN_MEDIA),
        (Some("application/zip"), b"PK\x03\x04\xff\0".to_vec(), "application/zip"),
        (Some("application/zip"), b"only text".to_vec(), TEXT_MEDIA),
        (Some("image/png"), b"GIF89a".to_vec(), "image/gif"),
        (None, vec![b'a'; TEXT_BYTES + 1], TEXT_MEDIA),
        (None, vec![0], UNKNOWN_MEDIA),
    ] {
        let file = NewAttachment::for_command("x", declared, content.clone()).unwrap();
        assert_eq!(file.to_blob(), (expected.to_owned(), content), "{declared:?}");
    }
    let check = |is_message| {
        let attachments = vec![NewAttachment::for_command("x.wav", Some("audio/wav"), wav.clone()).unwrap()];
        LineInput { attachments, ..LineInput::default() }.check_files(is_message)
    };
    assert_eq!(check(false).map_err(|refused| refused.message), Ok(()));
    assert_eq!(check(true).unwrap_err().message, "'x.wav' is neither text, an image nor a PDF.");
    assert!(NewAttachment::for_command("x", None, vec![0; usize::try_from(FILE_BYTES).unwrap() + 1]).is_err());
}

#[test]
fn memory_of_all_attached_files_is_limited() {
    let file =
        |size: usize| vec![NewAttachment::new("a.png", [&b"\x89PNG\r\n\x1a\n"[..], &vec![0; size]].concat()).unwrap()];
    let memory = FileMemory(Arc::new(Semaphore::new(100)));
    assert!(memory.take(&[]).unwrap().is_none());
    let first = memory.take(&file(50)).unwrap();
    let refused = memory.take(&file(50)).unwrap_err();
    let expected = "the attached files of all running lines would exceed 128 MiB; wait until another line has ended, then send \
                    this line again.";
    assert_eq!((refused.code, &*refused.message), (Code::AttachmentRefused, expected));
    drop(first);
    assert!(memory.take(&file(50)).is_ok());
}

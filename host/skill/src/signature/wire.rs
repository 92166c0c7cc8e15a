//! The binary format of OpenSSH's keys and signatures: four-byte numbers, and strings prefixed with their length.

/// A field is missing or malformed. The string is the end of an error message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedField(pub(super) &'static str);

const SHORT: MalformedField = MalformedField("it ends within a field");

/// The unread rest of a blob.
pub(super) struct WireFields<'a>(&'a [u8]);

impl<'a> WireFields<'a> {
    pub(super) fn new(blob: &'a [u8]) -> Self {
        Self(blob)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], MalformedField> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, MalformedField> {
        let (byte, rest) = self.0.split_first().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*byte)
    }

    pub(super) fn number(&mut self) -> Result<u32, MalformedField> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(SHORT)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    pub(super) fn string(&mut self) -> Result<&'a [u8], MalformedField> {
        let length = usize::try_from(self.number()?).map_err(|_| SHORT)?;
        self.take(length)
    }

    /// Reads a positive integer of at most `N` bytes, and pads it with zeros on the left.
    pub(super) fn integer<const N: usize>(&mut self) -> Result<[u8; N], MalformedField> {
        let bytes = self.string()?;
        if bytes.first().is_some_and(|first| first & 0x80 != 0) {
            return Err(MalformedField("an integer is negative"));
        }
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let digits = &bytes[zeros..];
        let start = N.checked_sub(digits.len()).ok_or(MalformedField("an integer is too large"))?;
        let mut padded = [0; N];
        padded[start..].copy_from_slice(digits);
        Ok(padded)
    }

    /// Checks that all bytes were read.
    pub(super) fn end(self) -> Result<(), MalformedField> {
        if self.0.is_empty() { Ok(()) } else { Err(MalformedField("it has bytes after its last field")) }
    }
}

/// Appends `bytes`, prefixed with their length.
pub(super) fn put_string(blob: &mut Vec<u8>, bytes: &[u8]) {
    // The fields of signatures and keys are far smaller than 4 GiB.
    blob.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    blob.extend_from_slice(bytes);
}

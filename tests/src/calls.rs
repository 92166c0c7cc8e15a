//! Guests that make one host call with fixed arguments and return its result. Use them to test a capability without writing
//! WAT. Each builder says which host call it makes.

use std::fmt::Write as _;

use crate::guest::{ECHO, Guest, data};

/// WAT function `$say ADDRESS LENGTH`, which returns the tool result `ok([text])`.
pub const SAY: &str = "
(func $say (param $text i32) (param $len i32) (result i32)
  (i32.store8 (i32.const 0) (i32.const 0))
  (i32.store (i32.const 4) (i32.const 64))
  (i32.store (i32.const 8) (i32.const 1))
  (i32.store8 (i32.const 64) (i32.const 0))
  (i32.store (i32.const 68) (local.get $text))
  (i32.store (i32.const 72) (local.get $len))
  (i32.const 0))
";

/// WAT function `$fail ERROR`, which returns the host-call error at that address as the result `err`.
const FAIL: &str = "
(func $fail (param $error i32) (result i32)
  (i32.store8 (i32.const 0) (i32.const 1))
  (i32.store (i32.const 4) (i32.load (local.get $error)))
  (i32.store (i32.const 8) (i32.load offset=4 (local.get $error)))
  (i32.store (i32.const 12) (i32.load offset=8 (local.get $error)))
  (i32.store (i32.const 16) (i32.load offset=12 (local.get $error)))
  (i32.const 0))
";

/// Address of the first string. The heap of the canonical ABI begins far above it.
const TEXTS: u32 = 8192;

/// A data segment of consecutive strings.
#[derive(Default)]
struct Texts(Vec<u8>);

impl Texts {
    /// Adds a string and returns its address and length as two WAT constants.
    fn put(&mut self, bytes: &[u8]) -> String {
        let at = TEXTS + u32::try_from(self.0.len()).expect("short texts");
        self.0.extend(bytes);
        format!("(i32.const {at}) (i32.const {})", bytes.len())
    }

    fn data(&self) -> String {
        data(TEXTS, &self.0)
    }
}

/// A credential of a request: its name, its header, and the prefix of the header's value. A header `?NAME`
/// stands for the query parameter NAME.
pub type Credential<'a> = (&'a str, &'a str, &'a str);

/// A guest that requests `url` with GET and returns the body of the response. It traps if its memory then contains `sentinel`,
/// which the guest itself stores only in an encoded form.
pub fn fetching(url: &str, credential: Option<Credential<'_>>, sentinel: &str) -> Guest {
    requesting("GET", url, credential, sentinel)
}

/// Like [`fetching`], with any `method`.
pub fn requesting(method: &str, url: &str, credential: Option<Credential<'_>>, sentinel: &str) -> Guest {
    let mut texts = Texts::default();
    let method = texts.put(method.as_bytes());
    let url = texts.put(url.as_bytes());
    let hidden = texts.put(&sentinel.bytes().map(|byte| byte ^ 0x5a).collect::<Vec<_>>());
    // The record of the credential is at 4096: its name, then the case `header` with two texts or `query` with one.
    let (auth, lay) = match credential {
        None => ("(i32.const 0) (i32.const 0)".to_owned(), String::new()),
        Some((name, header, prefix)) => {
            let mut lay = String::new();
            let query = header.strip_prefix('?');
            if query.is_some() {
                lay.push_str("(i32.store8 (i32.const 4104) (i32.const 1))");
            }
            for (at, text) in [(4096, name), (4108, query.unwrap_or(header)), (4116, prefix)] {
                let text = texts.put(text.as_bytes());
                writeln!(lay, "(call $pair (i32.const {at}) {text})").expect("a String accepts all writes");
            }
            ("(i32.const 4096) (i32.const 1)".to_owned(), lay)
        }
    };
    let call = format!(
        "{lay}
    (call $send {method} {url} (i32.const 0) (i32.const 0) {auth}
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 512))
    (if (call $holds {hidden}) (then (unreachable)))
    (if (i32.load8_u (i32.const 512)) (then (return (call $fail (i32.const 516)))))
    (call $say (i32.load (i32.const 528)) (i32.load (i32.const 532)))"
    );
    Guest::calling(&call)
        .with(
            r#"
(import "patchbay:host/http@0.1.0" "send" (func $send (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
(func $pair (param $at i32) (param $text i32) (param $len i32)
  (i32.store (local.get $at) (local.get $text))
  (i32.store offset=4 (local.get $at) (local.get $len)))
(func $holds (param $hidden i32) (param $len i32) (result i32)
  (local $at i32) (local $same i32) (local $end i32)
  (if (i32.eqz (local.get $len)) (then (return (i32.const 0))))
  (local.set $end (i32.sub (i32.mul (memory.size) (i32.const 65536)) (local.get $len)))
  (loop $next
    (local.set $same (i32.const 0))
    (block $differs
      (loop $byte
        (br_if $differs (i32.ne
          (i32.load8_u (i32.add (local.get $at) (local.get $same)))
          (i32.xor (i32.load8_u (i32.add (local.get $hidden) (local.get $same))) (i32.const 0x5a))))
        (local.set $same (i32.add (local.get $same) (i32.const 1)))
        (br_if $byte (i32.lt_u (local.get $same) (local.get $len))))
      (return (i32.const 1)))
    (local.set $at (i32.add (local.get $at) (i32.const 1)))
    (br_if $next (i32.lt_u (local.get $at) (local.get $end))))
  (i32.const 0))
"#,
        )
        .with(SAY)
        .with(FAIL)
        .with(&texts.data())
}

/// A guest that calls the tool `tool` with `input` and returns its result.
pub fn relaying(tool: &str, input: &str) -> Guest {
    let mut texts = Texts::default();
    let (tool, input) = (texts.put(tool.as_bytes()), texts.put(input.as_bytes()));
    let call = format!(
        "(call $other {tool} {input} (i32.const 512))
    (if (i32.load8_u (i32.const 512)) (then (return (call $fail (i32.const 516)))))
    (call $say (i32.load (i32.const 516)) (i32.load (i32.const 520)))"
    );
    let import = "\n(import \"patchbay:host/tools@0.1.0\" \"call\" (func $other (param i32 i32 i32 i32 i32)))\n";
    Guest::calling(&call).with(import).with(SAY).with(FAIL).with(&texts.data())
}

/// A guest that sends `system` and `prompt` to the model of its agent and returns the answer.
pub fn completing(system: &str, prompt: &str) -> Guest {
    let mut texts = Texts::default();
    let (system, prompt) = (texts.put(system.as_bytes()), texts.put(prompt.as_bytes()));
    let call = format!(
        "(call $complete {system} {prompt} (i32.const 512))
    (if (i32.load8_u (i32.const 512)) (then (return (call $fail (i32.const 516)))))
    (call $say (i32.load (i32.const 516)) (i32.load (i32.const 520)))"
    );
    let import =
        "\n(import \"patchbay:host/inference@0.1.0\" \"complete\" (func $complete (param i32 i32 i32 i32 i32)))\n";
    Guest::calling(&call).with(import).with(SAY).with(FAIL).with(&texts.data())
}

/// A guest that stores `value` as the user's key `k`.
pub fn storing() -> Guest {
    let call = "
      (call $put (i32.const 2) (i32.const 131072) (i32.const 1) (i32.const 131073) (i32.const 5) (i32.const 0) (i64.const 0)
        (i32.const 512))";
    Guest::calling(&format!("{call}\n{ECHO}")).with(
        "\n(import \"patchbay:host/kv@0.1.0\" \"put\" (func $put (param i32 i32 i32 i32 i32 i32 i64 i32)))\n\
         (data (i32.const 131072) \"kvalue\")\n",
    )
}

/// A guest that reads the file `a` of the workspace and writes the file `b`.
pub fn copying() -> Guest {
    let call = "
      (call $read (i32.const 131072) (i32.const 1) (i64.const 0) (i32.const 100) (i32.const 512))
      (if (i32.load8_u (i32.const 512)) (then (unreachable)))
      (call $write (i32.const 131073) (i32.const 1) (i32.load (i32.const 516)) (i32.load (i32.const 520)) (i32.const 600))
      (if (i32.load8_u (i32.const 600)) (then (unreachable)))";
    Guest::calling(&format!("{call}\n{ECHO}")).with(
        "\n(import \"patchbay:host/workspace-read@0.1.0\" \"read\" (func $read (param i32 i32 i64 i32 i32)))\n\
         (import \"patchbay:host/workspace-write@0.1.0\" \"write\" (func $write (param i32 i32 i32 i32 i32)))\n\
         (data (i32.const 131072) \"ab\")\n",
    )
}

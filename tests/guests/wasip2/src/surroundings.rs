//! The environment as the standard library sees it.

use std::{
    env, fmt, fs,
    io::{self, Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _, UdpSocket},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use wasip2::{clocks::monotonic_clock, random::random};

pub(crate) fn look() -> Value {
    json!({
        "environment": env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        "arguments": env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        "directory": env::current_dir().map(|folder| folder.display().to_string()).or_error(),
        "list": list().or_error(),
        "open": fs::read_to_string("/etc/passwd").or_error(),
        "create": fs::write("made-by-a-guest", "text").or_error(),
        "wall_ns": [wall(), wall()],
        "monotonic_ns": [monotonic_clock::now(), monotonic_clock::now()],
        "random": [hex(&random::get_random_bytes(16)), hex(&random::get_random_bytes(16))],
        "connect": TcpStream::connect("127.0.0.1:80").map(|_| "connected").or_error(),
        "listen": UdpSocket::bind("127.0.0.1:0").map(|_| "bound").or_error(),
        "resolve": "localhost:80".to_socket_addrs().map(|found| found.count()).or_error(),
        "stdin": stdin().or_error(),
        "stdout": writeln!(io::stdout(), "a line to stdout").or_error(),
        "stderr": writeln!(io::stderr(), "a line to stderr").or_error(),
    })
}

trait OrError {
    fn or_error(self) -> Value;
}

impl<T: serde::Serialize, E: fmt::Display> OrError for Result<T, E> {
    fn or_error(self) -> Value {
        match self {
            Ok(value) => json!(value),
            Err(error) => json!({ "error": error.to_string() }),
        }
    }
}

fn list() -> io::Result<Vec<String>> {
    fs::read_dir(".")?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn stdin() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

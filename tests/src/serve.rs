//! `Serving`, a running `patchbay serve`, and its clients.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write},
    net::TcpStream,
    process::{Child, Stdio},
    sync::mpsc::channel,
    thread,
};

use serde_json::Value;
use tungstenite::{
    Message, WebSocket,
    client::IntoClientRequest as _,
    http::HeaderValue,
    protocol::{CloseFrame, Role},
};

use crate::{PATIENCE, acp::Talk, binary::Patchbay};

/// A server whose process is killed on drop.
pub struct Serving {
    /// The process under test.
    pub child: Child,
    /// Address and port.
    pub address: String,
    /// A token of the test's home.
    pub token: String,
}

impl Serving {
    /// Starts a server on a free port. `settings` are lines of `[serve]`.
    pub fn start(patchbay: &Patchbay, settings: &str) -> Self {
        Self::start_with(patchbay, settings, &["serve"]).0
    }

    /// Like [`Serving::start`], but also returns the link for a browser.
    pub fn start_open(patchbay: &Patchbay) -> (Self, String) {
        let (serving, lines) = Self::start_with(patchbay, "", &["serve", "--open"]);
        let link = lines.last().and_then(|line| line.rsplit(' ').next()).expect("a link").to_owned();
        (serving, link)
    }

    fn start_with(patchbay: &Patchbay, settings: &str, arguments: &[&str]) -> (Self, Vec<String>) {
        let config = patchbay.home().join("config/config.toml");
        let before = fs::read_to_string(&config).unwrap_or_default();
        if !before.contains("[serve]") {
            // A JSON string is also a valid TOML string.
            let workspace = Value::from(patchbay.workspace().to_string_lossy());
            let serve =
                format!("{before}\n[serve]\nlisten = \"127.0.0.1:0\"\nworkspaces = [{workspace}]\n{settings}\n");
            patchbay.write("home/config/config.toml", serve);
        }
        let mut command = patchbay.command(arguments);
        let mut child = command.stderr(Stdio::inherit()).spawn().expect("the binary starts");
        let mut output = BufReader::new(child.stdout.take().expect("an output"));
        let mut line = || {
            let mut line = String::new();
            output.read_line(&mut line).expect("a line");
            line.trim_end().to_owned()
        };
        let url = line();
        // With --open, the first start in a home prints two more lines: where the first token is, and the link.
        let lines = if arguments.len() > 1 { vec![line(), line()] } else { Vec::new() };
        let address = url.split_once("://").expect("a URL").1.to_owned();
        let token = fs::read_to_string(patchbay.home().join("state/serve.token")).expect("a token").trim().to_owned();
        (Self { child, address, token }, lines)
    }

    /// Opens a connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// Opens a WebSocket with the home's token.
    pub fn socket(&self) -> WebSocket<TcpStream> {
        self.socket_with(&self.token)
    }

    /// Opens a WebSocket with another token.
    pub fn socket_with(&self, token: &str) -> WebSocket<TcpStream> {
        let mut request = format!("ws://{}/acp", self.address).into_client_request().expect("a URL");
        let bearer = HeaderValue::from_str(&format!("Bearer {token}")).expect("a token");
        request.headers_mut().insert("authorization", bearer);
        tungstenite::client(request, self.connect()).expect("a WebSocket").0
    }

    /// Connects a client and initializes it with these capabilities.
    pub fn client(&self, capabilities: &Value) -> Talk {
        talk(self.socket(), capabilities)
    }

    /// Sends a request with this head, which needs no `Host` and no final blank line. Returns all bytes of the response.
    pub fn raw(&self, head: &str) -> String {
        self.raw_to(head, &self.address)
    }

    /// Like [`Serving::raw`], with another `Host`.
    pub fn raw_to(&self, head: &str, host: &str) -> String {
        let mut stream = self.connect();
        write!(stream, "{head}\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a client on this socket, initialized with these capabilities.
pub fn talk(socket: WebSocket<TcpStream>, capabilities: &Value) -> Talk {
    let sending = socket.get_ref().try_clone().expect("a socket");
    let sending = Frames { socket: WebSocket::from_raw_socket(sending, Role::Client, None), line: Vec::new() };
    let (sender, lines) = channel();
    thread::spawn(move || {
        let mut socket = socket;
        loop {
            match socket.read() {
                Ok(Message::Text(text)) => {
                    let Ok(()) = sender.send(serde_json::from_str(&text).expect("JSON")) else { return };
                }
                Ok(Message::Ping(_)) => {}
                _ => return,
            }
        }
    });
    let mut talk = Talk::new(Box::new(sending), lines);
    talk.initialize(capabilities);
    talk
}

/// Reads until the server closes the socket, and returns the close code.
pub fn closed(socket: &mut WebSocket<TcpStream>) -> Option<u16> {
    loop {
        match socket.read() {
            Ok(Message::Close(frame)) => return frame.map(|CloseFrame { code, .. }| code.into()),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

/// A sink that sends each line as a text frame.
struct Frames {
    socket: WebSocket<TcpStream>,
    line: Vec<u8>,
}

impl Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            if *byte == b'\n' {
                let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(io::Error::other)?;
                self.socket.send(Message::text(line)).map_err(io::Error::other)?;
            } else {
                self.line.push(*byte);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // Dropping only this end would not close the socket, because the reading thread has it as well.
        let _ = self.socket.get_ref().shutdown(std::net::Shutdown::Both);
    }
}

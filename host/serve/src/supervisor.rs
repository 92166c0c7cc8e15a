//! The interface to a supervisor such as systemd: it provides a listening socket (`LISTEN_FDS`), and is told when the server is
//! ready (`NOTIFY_SOCKET`).

use std::{env, io, os::unix::net::UnixDatagram};

use tokio::net::TcpListener;

/// Returns the listening socket that the supervisor has passed; `None` without one.
///
/// # Errors
/// The passed descriptor is not a TCP socket.
pub(crate) fn passed_listener() -> io::Result<Option<TcpListener>> {
    let Some(listener) = listenfd::ListenFd::from_env().take_tcp_listener(0)? else { return Ok(None) };
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener).map(Some)
}

/// Tells the supervisor a state, such as `READY=1`. Without a supervisor nothing happens.
pub(crate) fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    let sent = UnixDatagram::unbound().and_then(|socket| send(&socket, &path, state.as_bytes()));
    if let Err(error) = sent {
        tracing::warn!("cannot tell the supervisor {state}: {error}");
    }
}

#[cfg(target_os = "linux")]
fn send(socket: &UnixDatagram, path: &std::ffi::OsStr, state: &[u8]) -> io::Result<usize> {
    use std::os::{
        linux::net::SocketAddrExt as _,
        unix::{ffi::OsStrExt as _, net::SocketAddr},
    };
    match path.as_bytes().strip_prefix(b"@") {
        Some(name) => socket.send_to_addr(state, &SocketAddr::from_abstract_name(name)?),
        None => socket.send_to(state, path),
    }
}

#[cfg(not(target_os = "linux"))]
fn send(socket: &UnixDatagram, path: &std::ffi::OsStr, state: &[u8]) -> io::Result<usize> {
    socket.send_to(state, path)
}

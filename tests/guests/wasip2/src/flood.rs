//! Too much of everything that WASI offers.

use patchbay_sdk::{Failure, Result};
use wasip2::{
    clocks::monotonic_clock,
    http::{
        outgoing_handler::handle,
        types::{Fields, Method, OutgoingRequest, Scheme},
    },
    random::random,
    sockets,
};

pub(crate) fn of(what: &str, count: u64) -> Result<String> {
    match what {
        "readings of the clock" => (0..count).for_each(|_| _ = monotonic_clock::now()),
        "lines" => (0..count).for_each(|line| println!("line {line}")),
        "text without end" => (0..count).for_each(|_| print!("{}", "x".repeat(1000))),
        // All of them are kept, because each must count against the host's resources.
        "sleeps" => drop((0..count).map(|_| monotonic_clock::subscribe_duration(1)).collect::<Vec<_>>()),
        "random bytes" => drop(random::get_random_bytes(count)),
        "sockets" => {
            for _ in 0..count {
                let family = sockets::network::IpAddressFamily::Ipv4;
                if sockets::tcp_create_socket::create_tcp_socket(family).is_ok() {
                    return Err(Failure::new("failed", "a socket was made"));
                }
            }
        }
        "bodies of requests" => return Ok(format!("{} bytes were taken", bodies(count))),
        "answers" => {
            let (came, refused) = answers(count);
            return Ok(format!("{came} answers came; {refused}"));
        }
        "exit codes" => std::process::exit(i32::try_from(count).unwrap_or(1)),
        other => return Err(Failure::invalid(format!("there is no flood of '{other}'"))),
    }
    Ok("done".to_owned())
}

fn request(method: &Method) -> OutgoingRequest {
    let request = OutgoingRequest::new(Fields::new());
    let set = request.set_method(method).is_ok()
        && request.set_scheme(Some(&Scheme::Http)).is_ok()
        && request.set_authority(Some("127.0.0.1:9")).is_ok()
        && request.set_path_with_query(Some("/")).is_ok();
    assert!(set, "a request like any other");
    request
}

/// Opens `count` requests and writes to each body as long as the host accepts bytes, both before and after sending the request. No
/// body is ended. Returns the number of accepted bytes.
fn bodies(count: u64) -> u64 {
    let mut kept = Vec::new();
    let mut taken = 0;
    for _ in 0..count {
        let request = request(&Method::Post);
        let Ok(body) = request.body() else { break };
        let Ok(stream) = body.write() else { break };
        let mut fill = || {
            while let Ok(room) = stream.check_write() {
                if room == 0 || stream.write_zeroes(room).is_err() {
                    break;
                }
                taken += room;
                stream.subscribe().ready();
            }
        };
        fill();
        let pending = handle(request, None);
        for _ in 0..20 {
            fill();
            monotonic_clock::subscribe_duration(100_000).block();
        }
        // The stream must be dropped before its body.
        kept.push((stream, body, pending));
    }
    taken
}

/// Sends `count` requests concurrently without reading the responses. Returns how many responses arrived, and the last error.
fn answers(count: u64) -> (usize, String) {
    let pending: Vec<_> = (0..count).map(|_| handle(request(&Method::Get), None)).collect();
    let (mut kept, mut refused) = (Vec::new(), String::new());
    for pending in pending {
        let answer = pending.map(|pending| {
            pending.subscribe().block();
            pending.get()
        });
        match answer {
            Ok(Some(Ok(Ok(response)))) => kept.push((response.consume().ok(), response)),
            other => refused = format!("{other:?}"),
        }
    }
    (kept.len(), refused)
}

//! Too much of everything that WASI gives.

use patchbay_sdk::{Failure, Result};
use wasip2::{clocks::monotonic_clock, random::random, sockets};

pub(crate) fn of(what: &str, count: u64) -> Result<String> {
    match what {
        "readings of the clock" => (0..count).for_each(|_| _ = monotonic_clock::now()),
        "lines" => (0..count).for_each(|line| println!("line {line}")),
        "text without end" => (0..count).for_each(|_| print!("{}", "x".repeat(1000))),
        // Kept, so that each takes its place among the host's resources.
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
        "exit codes" => std::process::exit(i32::try_from(count).unwrap_or(1)),
        other => return Err(Failure::invalid(format!("there is no flood of '{other}'"))),
    }
    Ok("done".to_owned())
}

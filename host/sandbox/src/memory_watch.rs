//! Watches the memory of a compiler where the system cannot limit it. macOS refuses every address space limit below the
//! size it maps into each process, which is hundreds of gigabytes on Apple silicon. `artefacts` uses this module there.

use std::{future::pending, io, process::Stdio, time::Duration};

use tokio::{process::Command, time::sleep};

/// The program that reports a process. It is part of macOS and of nearly every Linux distribution.
const PS: &str = "/bin/ps";
/// How often the memory is read. Between two reads, a compiler can exceed its limit.
const INTERVAL: Duration = Duration::from_millis(100);

/// Waits until the process `id` has more than `limit` bytes of resident memory. Never returns if the process has ended, because its
/// parent notices that.
///
/// # Errors
/// If the memory cannot be read. The process then has no limit and must be stopped.
pub(crate) async fn over_limit(id: u32, limit: u64) -> io::Result<()> {
    loop {
        match resident(id).await {
            Ok(Some(bytes)) if bytes > limit => return Ok(()),
            Ok(Some(_)) => sleep(INTERVAL).await,
            Ok(None) => pending().await,
            Err(error) => return Err(io::Error::other(format!("its memory cannot be watched with {PS}: {error}"))),
        }
    }
}

/// Returns the resident memory of the process `id` in bytes, or `None` if the process does not exist.
async fn resident(id: u32) -> io::Result<Option<u64>> {
    let mut ps = Command::new(PS);
    ps.args(["-o", "rss=", "-p", &id.to_string()]).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    parse(&String::from_utf8_lossy(&ps.output().await?.stdout))
}

/// Reads the output of `ps -o rss=`: KiB, or nothing if the process does not exist.
fn parse(output: &str) -> io::Result<Option<u64>> {
    match output.trim() {
        "" => Ok(None),
        kib => match kib.parse::<u64>() {
            Ok(kib) => Ok(Some(kib.saturating_mul(1024))),
            Err(_) => Err(io::Error::other(format!("it printed {kib:?}"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_ps_is_read() {
        assert_eq!(parse(" 2048\n").unwrap(), Some(2 << 20));
        assert_eq!(parse("\n").unwrap(), None);
        assert!(parse("error: unknown user-defined format specifier").is_err());
    }

    #[tokio::test]
    async fn memory_of_this_process_is_read() {
        let bytes = resident(std::process::id()).await.unwrap().unwrap();
        assert!(bytes > 1 << 20, "{bytes}");
        over_limit(std::process::id(), 1 << 20).await.unwrap();
    }
}

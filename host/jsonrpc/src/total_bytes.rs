//! A limit on the bytes that wait in all connections of a server together: messages that are being received, that are not handled
//! yet, or that their clients have not read. Each connection also has limits of its own; this limit matters when many connections
//! come close to theirs.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use patchbay_core::Digest;
use tokio_util::sync::CancellationToken;

/// The bytes of all connections. Above the limit, the largest connection of the client with the most bytes is ended. A client that
/// spreads its bytes over many connections therefore cannot displace other clients.
pub struct TotalBytes {
    limit: usize,
    counted: Mutex<CountedBytes>,
}

#[derive(Default)]
struct CountedBytes {
    /// The bytes of the connections that are not ended.
    total: usize,
    /// The bytes of each connection, by its number.
    connections: BTreeMap<u64, CountedConnection>,
    last: u64,
}

struct CountedConnection {
    client: Digest,
    bytes: usize,
    ended: CancellationToken,
}

/// The bytes of one connection.
pub struct ConnectionBytes {
    all: Arc<TotalBytes>,
    number: u64,
    ended: CancellationToken,
}

/// Bytes that are counted for a connection until this is dropped.
pub struct WaitingBytes {
    connection: Arc<ConnectionBytes>,
    bytes: usize,
}

impl TotalBytes {
    /// Returns an empty count. The limit is in bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, counted: Mutex::default() })
    }

    /// Adds a connection of `client`, with no bytes yet.
    pub fn connect(self: &Arc<Self>, client: Digest) -> Arc<ConnectionBytes> {
        let ended = CancellationToken::new();
        let mut counted = self.counted.lock();
        counted.last += 1;
        let number = counted.last;
        counted.connections.insert(number, CountedConnection { client, bytes: 0, ended: ended.clone() });
        Arc::new(ConnectionBytes { all: Arc::clone(self), number, ended })
    }
}

impl CountedBytes {
    /// Returns the largest connection of the client with the most bytes.
    fn most(&self) -> Option<u64> {
        let mut clients = BTreeMap::<Digest, usize>::new();
        for connection in self.connections.values() {
            *clients.entry(connection.client).or_default() += connection.bytes;
        }
        let (client, _) = clients.into_iter().max_by_key(|(_, bytes)| *bytes)?;
        let own = self.connections.iter().filter(|(_, connection)| connection.client == client);
        own.max_by_key(|(_, connection)| connection.bytes).map(|(number, _)| *number)
    }
}

impl ConnectionBytes {
    /// Counts bytes until the returned value is dropped.
    pub fn wait(self: &Arc<Self>, bytes: usize) -> WaitingBytes {
        let mut waiting = WaitingBytes { connection: Arc::clone(self), bytes: 0 };
        waiting.grow(bytes);
        waiting
    }

    /// Returns a token that is cancelled when the limit is exceeded and this is the largest connection of the client
    /// with the most bytes. The connection must then end.
    pub fn ended(&self) -> &CancellationToken {
        &self.ended
    }
}

impl WaitingBytes {
    /// Counts further bytes of this connection.
    pub fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        let all = &self.connection.all;
        let mut counted = all.counted.lock();
        // A connection that was ended is no longer counted.
        let Some(own) = counted.connections.get_mut(&self.connection.number) else { return };
        own.bytes += bytes;
        counted.total += bytes;
        while counted.total > all.limit
            && let Some(most) = counted.most()
            && let Some(connection) = counted.connections.remove(&most)
        {
            counted.total -= connection.bytes;
            connection.ended.cancel();
        }
    }

    /// Stops counting this many bytes, or all of them if there are fewer.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        let mut counted = self.connection.all.counted.lock();
        if let Some(own) = counted.connections.get_mut(&self.connection.number) {
            own.bytes -= bytes;
            counted.total -= bytes;
        }
    }
}

impl Drop for WaitingBytes {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

impl Drop for ConnectionBytes {
    fn drop(&mut self) {
        // Each `WaitingBytes` has a reference to its connection, so none exists any more.
        self.all.counted.lock().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_with_the_most_bytes_is_ended() {
        let all = TotalBytes::new(100);
        let [small, large, other] = [1, 2, 3].map(|client| all.connect(Digest::of(&[client])));
        let is_ended = |connection: &Arc<ConnectionBytes>| connection.ended().is_cancelled();
        let _small = small.wait(20);
        let large_bytes = large.wait(60);
        let mut other_bytes = other.wait(20);
        assert!(!is_ended(&small) && !is_ended(&large) && !is_ended(&other));
        other_bytes.grow(1);
        assert!(!is_ended(&small) && is_ended(&large) && !is_ended(&other));
        // Its bytes no longer count, and the others can use its share.
        drop(large_bytes);
        other_bytes.grow(59);
        assert_eq!((is_ended(&other), all.counted.lock().total), (false, 100));
        drop(other_bytes);
        assert_eq!(all.counted.lock().total, 20);
        let late = large.wait(90);
        assert_eq!(all.counted.lock().total, 20);
        drop((late, large, small, other));
        assert_eq!(all.counted.lock().connections.len(), 1, "the bytes of the small one keep it");
    }

    #[test]
    fn client_with_many_connections_ends_its_own() {
        let all = TotalBytes::new(100);
        let [many, other] = [1, 2].map(|client| Digest::of(&[client]));
        let connections: Vec<_> = (0..9).map(|_| all.connect(many)).collect();
        let mut waiting: Vec<_> = connections.iter().map(|connection| connection.wait(7)).collect();
        waiting[3].grow(1);
        let victim = all.connect(other);
        let _large = victim.wait(37);
        let ended: Vec<_> = connections.iter().map(|connection| connection.ended().is_cancelled()).collect();
        assert_eq!(ended.iter().position(|ended| *ended), Some(3));
        assert!(!victim.ended().is_cancelled() && ended.iter().filter(|ended| **ended).count() == 1);
    }
}

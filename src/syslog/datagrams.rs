//! Syslog over UDP: a datagram is a message (RFC 5426, section 3.1).
//!
//! # Invariants
//! * The listener reads on while the store does not take messages, so that it knows what it drops:
//!   those beyond [`QUEUE_BYTES_MAX`].
//! * Drops of the kernel, which happen while this process does not get the processor, are counted
//!   where the kernel tells them: in `/proc/net/udp` and `/proc/net/udp6`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ingest::Records;
use storage::Name;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use super::Syslog;
use crate::access::Principal;
use crate::failure::Result;
use crate::serve::Service;
use crate::shippers::{CHUNK_BYTES_MAX, held_bytes};

/// Bytes of a datagram (RFC 768: its length has 16 bits).
const DATAGRAM_BYTES_MAX: usize = 1 << 16;
/// Maximum bytes of messages that wait or are being stored.
const QUEUE_BYTES_MAX: usize = 16 << 20;
/// Datagrams that are read before anything else is looked at.
const READ_AT_ONCE: usize = 256;
/// Time for which senders stay refused: each attempt would be a failed login of the audit.
const ADMIT_AGAIN: Duration = Duration::from_secs(1);
/// Interval of messages about drops.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// Time that the messages of the queue have to be stored when the server stops.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// The listener for datagrams.
pub(super) struct Datagrams {
    syslog: Syslog,
    socket: UdpSocket,
    /// Messages that were not handed over yet.
    whole: Records,
    /// The messages before them, until the store has them: each task returns their bytes.
    storing: JoinSet<usize>,
    storing_bytes: usize,
    /// The last sender, and its name.
    sender: Option<(IpAddr, Arc<str>)>,
    who: Option<Arc<Principal>>,
    /// The time at which the senders were refused.
    refused_at: Option<Instant>,
    reported: u64,
}

impl Service for Datagrams {
    fn name(&self) -> &'static str {
        "syslog-udp"
    }

    fn run(self: Box<Self>) -> Result<()> {
        let runtime = self.syslog.serving.runtime.clone();
        runtime.block_on(self.receive());
        Ok(())
    }
}

impl Datagrams {
    pub(super) fn new(syslog: Syslog, socket: UdpSocket) -> Self {
        Self {
            syslog,
            socket,
            whole: Records::default(),
            storing: JoinSet::new(),
            storing_bytes: 0,
            sender: None,
            who: None,
            refused_at: None,
            reported: 0,
        }
    }

    /// Receives datagrams until the server stops, then stores those that it has.
    async fn receive(mut self) {
        let stop = self.syslog.serving.stop.clone();
        let mut bytes = vec![0; DATAGRAM_BYTES_MAX];
        let mut report = tokio::time::interval(REPORT_INTERVAL);
        loop {
            tokio::select! {
                received = self.socket.recv_from(&mut bytes) => {
                    self.take(received, &bytes);
                    self.take_more(&mut bytes);
                }
                Some(stored) = self.storing.join_next() => {
                    // The bytes of a task that panicked stay counted; the panic is in the log.
                    self.storing_bytes -= stored.unwrap_or(0);
                }
                _ = report.tick() => self.report(),
                () = stop.heard() => break,
            }
            self.hand_over().await;
        }
        self.take_more(&mut bytes);
        self.hand_over().await;
        self.report();
        let stored = async { while self.storing.join_next().await.is_some() {} };
        if tokio::time::timeout(FINISH_WITHIN, stored).await.is_err() {
            tracing::error!(
                "messages of syslog datagrams were not stored in time at the end of the server"
            );
        }
    }

    /// Takes the datagrams that are there.
    fn take_more(&mut self, bytes: &mut [u8]) {
        for _ in 0..READ_AT_ONCE {
            match self.socket.try_recv_from(bytes) {
                Ok(received) => self.take(Ok(received), bytes),
                Err(_) => return,
            }
        }
    }

    /// Takes a datagram into the queue, or drops it. An error of the socket is that of an answer
    /// to somebody, and none of ours.
    fn take(&mut self, received: std::io::Result<(usize, SocketAddr)>, bytes: &[u8]) {
        let Ok((length, from)) = received else {
            return;
        };
        let message = &bytes[..length];
        // Some programs end their only line.
        let message = message.strip_suffix(b"\n").unwrap_or(message);
        if message.is_empty() {
            return;
        }
        if held_bytes(&self.whole) + self.storing_bytes + message.len() > QUEUE_BYTES_MAX {
            let dropped = &self.syslog.serving.shippers.udp_queue_dropped;
            dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let from = from.ip().to_canonical();
        if self.sender.as_ref().is_none_or(|(last, _)| *last != from) {
            self.sender = Some((from, from.to_string().into()));
        }
        let (_, sender) = self.sender.as_ref().expect("BUG: it was set");
        self.whole.push_from(sender, message);
    }

    /// Hands over the messages of the queue, when a task is free for them or they are many.
    async fn hand_over(&mut self) {
        let is_due = self.storing.is_empty() || self.whole.bytes() >= CHUNK_BYTES_MAX;
        if self.whole.is_empty() || !is_due {
            return;
        }
        let whole = std::mem::take(&mut self.whole);
        let stream = self.syslog.stream.clone();
        let Some(who) = self.admit(&stream).await else {
            let refused = whole.len() as u64;
            self.syslog.serving.intake.count_refused(&stream, refused);
            return;
        };
        let bytes = held_bytes(&whole);
        self.storing_bytes += bytes;
        let gatherer = Arc::clone(&self.syslog.gatherer);
        self.storing.spawn(async move {
            gatherer.store_surely(who, stream, whole).await;
            bytes
        });
    }

    /// Returns the account of the senders, if there is one that may write.
    async fn admit(&mut self, stream: &Name) -> Option<Arc<Principal>> {
        let is_refused = |at: Instant| at.elapsed() < ADMIT_AGAIN;
        if self.refused_at.is_some_and(is_refused) {
            return None;
        }
        let (from, door) = (self.sender(), &self.syslog.door);
        self.who = match &self.who {
            Some(who) => door.renew(who, from, stream),
            None => door.admit(None, from, stream).await,
        };
        self.refused_at = self.who.is_none().then(Instant::now);
        self.who.clone()
    }

    fn sender(&self) -> IpAddr {
        let (address, _) = self.sender.as_ref().expect("BUG: a message has a sender");
        *address
    }

    /// Logs how many datagrams were dropped since the last time.
    fn report(&mut self) {
        let counts = &self.syslog.serving.shippers;
        if let Some(dropped) = kernel_drops(&self.socket) {
            counts.udp_kernel_dropped.store(dropped, Ordering::Relaxed);
        }
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (queue, kernel) = (
            count(&counts.udp_queue_dropped),
            count(&counts.udp_kernel_dropped),
        );
        let new = queue + kernel - self.reported;
        if new > 0 {
            self.reported += new;
            tracing::warn!(
                new,
                queue,
                kernel,
                "syslog datagrams were dropped: use TCP or RELP, or raise net.core.rmem_max"
            );
        }
    }
}

/// Returns the datagrams that the kernel has dropped at a socket, the last column of its line in
/// `/proc/net/udp` or `/proc/net/udp6`; `None` where it does not say so.
fn kernel_drops(socket: &UdpSocket) -> Option<u64> {
    let inode = rustix::fs::fstat(socket).ok()?.st_ino;
    let file = match socket.local_addr().ok()? {
        SocketAddr::V4(_) => "/proc/net/udp",
        SocketAddr::V6(_) => "/proc/net/udp6",
    };
    drops_of(&std::fs::read_to_string(file).ok()?, inode)
}

/// Finds the drops of the socket with this inode in the text of `/proc/net/udp`.
fn drops_of(text: &str, inode: u64) -> Option<u64> {
    let inode = inode.to_string();
    let lines = text.lines().map(|line| line.split_whitespace());
    let mut own = lines.filter(|columns| columns.clone().nth(9) == Some(&inode));
    own.next()?.last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_those_of_the_socket() {
        let text = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  338: 0100007F:158A 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 41217 2 00000000b4f6cd0f 0
 2339: 0100007F:158B 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 41218 2 00000000b4f6cd10 1234
";
        assert_eq!(drops_of(text, 41217), Some(0));
        assert_eq!(drops_of(text, 41218), Some(1234));
        assert_eq!(drops_of(text, 4121), None);
    }
}

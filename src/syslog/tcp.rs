//! Connections of syslog over TCP and TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ingest::Records;
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;

use super::Syslog;
use super::framing::{Decoder, Malformed};
use crate::access::Principal;
use crate::listen::{Accepted, Beyond, Protocol};
use crate::shippers::{CHUNK_BYTES_MAX, Caller, PART_WITHIN, SILENT_WITHIN};
use crate::tls::Alpn;

/// Bytes that are read at once.
const READ_BYTES: usize = 32 << 10;

/// Syslog as a protocol of a listener.
#[derive(Debug)]
pub(super) struct SyslogTcp(pub(super) Syslog);

impl Protocol for SyslogTcp {
    async fn serve(self: Arc<Self>, accepted: Accepted) {
        if let Some(caller) = Caller::of(accepted, &self.0.serving, Alpn::Syslog).await {
            SyslogConnection::serve(&self.0, caller).await;
        }
    }

    /// Closes the connection: there is no word by which it could be refused.
    async fn serve_beyond(
        self: Arc<Self>,
        accepted: Accepted,
        limit: Beyond,
        _has_request: Arc<AtomicBool>,
    ) {
        let (_, why, hint) = limit.explained();
        tracing::debug!(ends = ?accepted.ends(), "a syslog connection was closed: {why}; {hint}");
    }
}

/// A connection whose sender may write.
struct SyslogConnection<'a> {
    syslog: &'a Syslog,
    caller: Caller,
    /// The address of the sender, the host of messages without one.
    sender: Arc<str>,
    decoder: Decoder,
    /// Messages that are whole and not handed over yet.
    whole: Records,
    /// The messages before them, until the store has them.
    storing: Option<JoinHandle<()>>,
}

/// The end of a connection.
enum ConnectionEnd {
    /// The client has closed it, or was silent for too long.
    Closed,
    Malformed(Malformed),
    /// The server stops, or the account of the sender has gone.
    Cut,
}

impl<'a> SyslogConnection<'a> {
    async fn serve(syslog: &'a Syslog, caller: Caller) {
        let (user, address) = (caller.user.clone(), caller.address);
        let Some(who) = syslog.door.admit(user, address, &syslog.stream).await else {
            return;
        };
        let mut connection = Self {
            syslog,
            sender: address.to_string().into(),
            caller,
            decoder: Decoder::default(),
            whole: Records::default(),
            storing: None,
        };
        let end = connection.read_all(who.clone()).await;
        match end {
            ConnectionEnd::Closed => {
                let (decoder, whole) = (&mut connection.decoder, &mut connection.whole);
                let sender = &connection.sender;
                decoder.finish(&mut |message| whole.push_from(sender, message));
            }
            ConnectionEnd::Malformed(why) => connection.log_malformed(why),
            ConnectionEnd::Cut => {}
        }
        if let Some(storing) = connection.storing.take() {
            // Its panic is in the log.
            let _ignored = storing.await;
        }
        if connection.begin_storing(&who)
            && let Some(storing) = connection.storing.take()
        {
            let _ignored = storing.await;
        }
    }

    /// Reads messages and hands them over until the connection ends.
    async fn read_all(&mut self, who: Arc<Principal>) -> ConnectionEnd {
        let mut bytes = Vec::with_capacity(READ_BYTES);
        loop {
            if self.storing.is_none() && !self.whole.is_empty() && !self.begin_storing(&who) {
                return ConnectionEnd::Cut;
            }
            let limit = match self.decoder.is_within_a_message() {
                true => PART_WITHIN,
                false => SILENT_WITHIN,
            };
            let may_read = self.whole.bytes() < CHUNK_BYTES_MAX;
            let read = async {
                match may_read {
                    true => tokio::time::timeout(limit, self.caller.io.read_buf(&mut bytes)).await,
                    false => std::future::pending().await,
                }
            };
            let stored = async {
                match &mut self.storing {
                    Some(storing) => storing.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = stored => self.storing = None,
                read = read => match read {
                    Ok(Ok(1..)) => {
                        if let Err(why) = self.take(&bytes) {
                            return ConnectionEnd::Malformed(why);
                        }
                        bytes.clear();
                    }
                    Ok(Ok(_) | Err(_)) | Err(_) => return ConnectionEnd::Closed,
                },
                () = self.caller.stop.heard() => return ConnectionEnd::Cut,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let (whole, sender) = (&mut self.whole, &self.sender);
        let mut push = |message: &[u8]| whole.push_from(sender, message);
        self.decoder.take(bytes, &mut push)
    }

    /// Begins to store the messages that are whole. Returns false if the sender may not write any
    /// more.
    fn begin_storing(&mut self, who: &Arc<Principal>) -> bool {
        if self.whole.is_empty() {
            return true;
        }
        let syslog = self.syslog;
        let renewed = syslog.door.renew(who, self.caller.address, &syslog.stream);
        let Some(who) = renewed else {
            return false;
        };
        let whole = std::mem::take(&mut self.whole);
        let gatherer = Arc::clone(&syslog.gatherer);
        let stored = gatherer.store_surely(who, syslog.stream.clone(), whole);
        self.storing = Some(tokio::spawn(stored));
        true
    }

    fn log_malformed(&self, why: Malformed) {
        let counts = &self.syslog.serving.shippers;
        counts.malformed.fetch_add(1, Ordering::Relaxed);
        if self.syslog.malformed.is_due() {
            tracing::warn!(from = %self.caller.address, "a syslog connection was closed: {why}");
        }
    }
}

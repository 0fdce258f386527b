//! Connections of syslog over TCP and TLS.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ingest::Records;
use tokio::task::JoinHandle;

use super::Syslog;
use super::framing::{Decoder, Malformed};
use crate::access::Principal;
use crate::listen::{Accepted, Beyond, Protocol};
use crate::shippers::{CHUNK_BYTES_MAX, Caller, log_beyond, log_malformed};
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
        log_beyond("syslog", &accepted, limit);
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
            let limit = self.caller.limit(self.decoder.is_within_a_message());
            let may_read = self.whole.bytes() < CHUNK_BYTES_MAX;
            let stop = self.caller.stop.clone();
            let read = async {
                match may_read {
                    true => tokio::time::timeout(limit, self.caller.read(&mut bytes)).await,
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
                () = stop.heard() => return ConnectionEnd::Cut,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let (whole, sender) = (&mut self.whole, &self.sender);
        let before = whole.len();
        let mut push = |message: &[u8]| whole.push_from(sender, message);
        let taken = self.decoder.take(bytes, &mut push);
        if whole.len() > before {
            self.caller.end_message();
        }
        taken
    }

    /// Begins to store the messages that are whole. Returns false if the sender may not write any
    /// more.
    fn begin_storing(&mut self, who: &Arc<Principal>) -> bool {
        if self.whole.is_empty() {
            return true;
        }
        let syslog = self.syslog;
        let whole = std::mem::take(&mut self.whole);
        let renewed = syslog.door.renew(who, self.caller.address, &syslog.stream);
        let Some(who) = renewed else {
            let refused = whole.len() as u64;
            syslog.serving.intake.count_refused(&syslog.stream, refused);
            return false;
        };
        let gatherer = Arc::clone(&syslog.gatherer);
        let stored = gatherer.store_surely(who, syslog.stream.clone(), whole);
        self.storing = Some(tokio::spawn(stored));
        true
    }

    fn log_malformed(&self, why: Malformed) {
        let Syslog {
            serving, malformed, ..
        } = self.syslog;
        log_malformed((serving, malformed), "syslog", self.caller.address, why);
    }
}

//! A session of RELP: its commands and their answers.

use std::sync::Arc;

use ingest::Records;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinHandle;

use super::Relp;
use super::frame::{Decoder, Frame, put};
use crate::access::Principal;
use crate::shippers::{CHUNK_BYTES_MAX, Caller, NotStored, log_malformed};

/// Bytes that are read at once.
const READ_BYTES: usize = 32 << 10;
/// Messages of a connection that wait to be handed over; clients have a window of 128.
const WAITING_MAX: usize = 4096;
/// Bytes of the offers of a client.
const OFFERS_BYTES_MAX: usize = 4 << 10;
/// The offers of this server. The version is 0: no client has another one.
const OFFERS: &str = "200 OK\nrelp_version=0\nrelp_software=logmill\ncommands=syslog";

/// A session whose client may write.
pub(super) struct RelpSession<'a> {
    relp: &'a Relp,
    caller: Caller,
    who: Arc<Principal>,
    decoder: Decoder,
    commands: Commands,
    storing: Option<Storing>,
    /// Frames that were not sent yet.
    out: String,
}

/// The frames of a client that were not handled yet.
struct Commands {
    /// The address of the sender, the host of messages without one.
    sender: Arc<str>,
    is_open: bool,
    /// Messages and, in their order, the numbers of their frames.
    messages: Records,
    numbers: Vec<u32>,
    /// The end of the session, after the messages before it were answered.
    end: Option<SessionEnd>,
}

/// The end of a session.
enum SessionEnd {
    /// The client asked for it by this frame.
    Asked(u32),
    /// The client sent a frame that cannot be served, and gets this answer.
    Refused(u32, &'static str),
    /// The server stops.
    Stopped,
    /// The bytes are none of RELP.
    Malformed,
    /// The connection broke, or the messages could not be stored: there is nobody to answer, or
    /// nothing to say.
    Broken,
}

/// Messages on their way into the store, and the numbers of their frames.
struct Storing {
    task: JoinHandle<Result<(), NotStored>>,
    numbers: Vec<u32>,
}

impl<'a> RelpSession<'a> {
    /// Serves a connection until it ends.
    pub(super) async fn serve(relp: &'a Relp, caller: Caller) {
        let (user, address) = (caller.user.clone(), caller.address);
        let Some(who) = relp.door.admit(user, address, &relp.stream).await else {
            return;
        };
        let mut session = Self {
            relp,
            commands: Commands {
                sender: address.to_string().into(),
                is_open: false,
                messages: Records::default(),
                numbers: Vec::new(),
                end: None,
            },
            caller,
            who,
            decoder: Decoder::default(),
            storing: None,
            out: String::new(),
        };
        let mut end = session.run().await;
        if !session.finish_storing().await {
            end = SessionEnd::Broken;
        }
        session.close(end).await;
    }

    /// Reads frames, and answers messages that are stored, until the session ends.
    async fn run(&mut self) -> SessionEnd {
        let mut bytes = Vec::with_capacity(READ_BYTES);
        loop {
            if self.storing.is_none() {
                if !self.begin_storing() {
                    return SessionEnd::Broken;
                }
                if self.storing.is_none()
                    && let Some(end) = self.commands.end.take()
                {
                    return end;
                }
            }
            if self.send().await.is_err() {
                return SessionEnd::Broken;
            }
            let limit = self.caller.limit(self.decoder.is_within_a_frame());
            let may_read = self.commands.may_take_more();
            let stop = self.caller.stop.clone();
            let read = async {
                match may_read {
                    true => tokio::time::timeout(limit, self.caller.read(&mut bytes)).await,
                    false => std::future::pending().await,
                }
            };
            let stored = async {
                match &mut self.storing {
                    Some(storing) => (&mut storing.task).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                stored = stored => {
                    if !self.answer(matches!(stored, Ok(Ok(())))) {
                        return SessionEnd::Broken;
                    }
                }
                read = read => match read {
                    Ok(Ok(1..)) => {
                        self.take(&bytes);
                        bytes.clear();
                    }
                    _ => return SessionEnd::Broken,
                },
                () = stop.heard() => return SessionEnd::Stopped,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let (commands, out) = (&mut self.commands, &mut self.out);
        let mut has_frame = false;
        let taken = self.decoder.take(bytes, &mut |frame| {
            has_frame = true;
            commands.take(frame, out);
        });
        if has_frame {
            self.caller.end_message();
        }
        if taken.is_err() {
            commands.end.get_or_insert(SessionEnd::Malformed);
        }
    }

    /// Begins to store the messages that are there. Returns false if the client may not write any
    /// more.
    fn begin_storing(&mut self) -> bool {
        if self.commands.numbers.is_empty() {
            return true;
        }
        let relp = self.relp;
        let renewed = relp
            .door
            .renew(&self.who, self.caller.address, &relp.stream);
        let Some(who) = renewed else {
            self.commands.forget();
            return false;
        };
        let messages = std::mem::take(&mut self.commands.messages);
        let (gatherer, stream) = (Arc::clone(&relp.gatherer), relp.stream.clone());
        let store = async move { gatherer.store(&who, &stream, &messages).await };
        self.storing = Some(Storing {
            task: tokio::spawn(store),
            numbers: std::mem::take(&mut self.commands.numbers),
        });
        true
    }

    /// Answers the messages that were being stored. Returns false if they were not stored: their
    /// client gets no answer and sends them again, with those behind them, in their order.
    fn answer(&mut self, is_stored: bool) -> bool {
        let storing = self.storing.take();
        for number in storing.iter().flat_map(|storing| &storing.numbers) {
            if is_stored {
                put(&mut self.out, *number, "rsp", "200 OK");
            }
        }
        if !is_stored {
            self.commands.forget();
        }
        is_stored
    }

    /// Stores and answers the messages that have come. Returns false if they were not stored.
    async fn finish_storing(&mut self) -> bool {
        loop {
            if let Some(storing) = &mut self.storing {
                let stored = (&mut storing.task).await;
                if !self.answer(matches!(stored, Ok(Ok(())))) {
                    return false;
                }
            }
            if !self.begin_storing() {
                return false;
            }
            if self.storing.is_none() {
                return true;
            }
        }
    }

    async fn close(mut self, end: SessionEnd) {
        match end {
            SessionEnd::Asked(number) => {
                put(&mut self.out, number, "rsp", "");
                put(&mut self.out, 0, "serverclose", "");
            }
            SessionEnd::Refused(number, why) => put(&mut self.out, number, "rsp", why),
            SessionEnd::Stopped => put(&mut self.out, 0, "serverclose", ""),
            SessionEnd::Malformed => {
                let Relp {
                    serving, malformed, ..
                } = self.relp;
                let why = "its bytes are no frame of RELP";
                log_malformed((serving, malformed), "RELP", self.caller.address, why);
            }
            SessionEnd::Broken => {}
        }
        // The client may have gone.
        let _ignored = self.send().await;
        let _ignored = self.caller.io.shutdown().await;
    }

    async fn send(&mut self) -> std::io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.caller.io.write_all(self.out.as_bytes()).await?;
        self.out.clear();
        self.caller.io.flush().await
    }
}

impl Commands {
    /// Gives up the messages that are not being stored: their frames get no answer.
    fn forget(&mut self) {
        self.messages = Records::default();
        self.numbers.clear();
    }

    fn may_take_more(&self) -> bool {
        self.end.is_none()
            && self.messages.bytes() < CHUNK_BYTES_MAX
            && self.numbers.len() < WAITING_MAX
    }

    fn take(&mut self, frame: &Frame<'_>, out: &mut String) {
        // Frames behind the end of a session are none of it.
        if self.end.is_some() {
            return;
        }
        match frame.command {
            "open" if self.is_open => put(out, frame.number, "rsp", "200 OK"),
            "open" => match offers_syslog(frame.data) {
                true => {
                    self.is_open = true;
                    put(out, frame.number, "rsp", OFFERS);
                }
                false => self.refuse(frame, "500 the client does not offer the command syslog"),
            },
            "syslog" if self.is_open => {
                self.numbers.push(frame.number);
                // Some clients end a message by LF.
                let message = frame.data.strip_suffix(b"\n").unwrap_or(frame.data);
                // An empty one is answered like the others, and nothing to store.
                if !message.is_empty() {
                    self.messages.push_from(&self.sender, message);
                }
            }
            "close" if self.is_open => self.end = Some(SessionEnd::Asked(frame.number)),
            _ if !self.is_open => self.refuse(frame, "500 the session is not open"),
            _ => put(out, frame.number, "rsp", "500 unknown command"),
        }
    }

    fn refuse(&mut self, frame: &Frame<'_>, why: &'static str) {
        self.end = Some(SessionEnd::Refused(frame.number, why));
    }
}

/// Returns whether the offers of a client, `NAME=VALUE,VALUE` in lines, have the command syslog.
fn offers_syslog(offers: &[u8]) -> bool {
    let offers = offers.get(..OFFERS_BYTES_MAX).unwrap_or(offers);
    let mut lines = offers.split(|b| *b == b'\n');
    let commands = lines.find_map(|line| line.strip_prefix(b"commands="));
    commands.is_some_and(|all| all.split(|b| *b == b',').any(|one| one == b"syslog"))
}

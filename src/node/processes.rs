//! The servers of the shards of a node, each a process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use super::HAND_OVER_WITHIN;
use crate::failure::DISK;

/// Pauses before a server that has ended is started again, from the first to the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Time after which an end has nothing to do with the start.
const SETTLED_AFTER: Duration = Duration::from_secs(60);
/// Pause between two looks at a server that is to end.
const LOOK: Duration = Duration::from_millis(10);

/// The way to start the server of a shard.
#[derive(Debug)]
pub(crate) struct ShardCommand {
    pub(crate) program: PathBuf,
    /// The arguments of each; that with the number of its shard follows.
    pub(crate) arguments: Vec<OsString>,
}

/// The servers of the shards that the group assigns to this node.
#[derive(Debug)]
pub(super) struct ShardProcesses {
    command: ShardCommand,
    /// Pause after an end with the status of a server that was taken over: by then the group has
    /// told that another node has the shard, if one has.
    taken_over_pause: Duration,
    all: Mutex<BTreeMap<u16, ShardProcess>>,
}

#[derive(Debug)]
struct ShardProcess {
    /// `None` between an end and the next start.
    child: Option<Child>,
    started: Instant,
    next_start: Instant,
    pause: Duration,
}

impl ShardProcesses {
    pub(super) fn new(command: ShardCommand, taken_over_pause: Duration) -> Self {
        Self {
            command,
            taken_over_pause,
            all: Mutex::default(),
        }
    }

    /// Adds shards; [`ShardProcesses::tend`] starts their servers.
    pub(super) fn take(&self, shards: &[u16]) {
        let now = Instant::now();
        let mut all = self.all.lock();
        for shard in shards {
            all.entry(*shard).or_insert_with(|| {
                tracing::info!(shard, "the group has assigned a shard to this node");
                ShardProcess {
                    child: None,
                    started: now,
                    next_start: now,
                    pause: PAUSES.0,
                }
            });
        }
    }

    /// Starts the servers that are due, and notes those that have ended.
    pub(super) fn tend(&self, now: Instant) {
        for (shard, process) in &mut *self.all.lock() {
            process.note_end(*shard, now, self.taken_over_pause);
            if process.child.is_none() && process.next_start <= now {
                match self.command.start(*shard) {
                    Ok(child) => process.child = Some(child),
                    Err(error) => {
                        tracing::error!(shard, %error, "the server of a shard does not start");
                        process.wait_longer(now);
                    }
                }
                process.started = now;
            }
        }
    }

    /// Lets the servers of shards seal and end. Waits for them; one that takes too long is killed.
    pub(super) fn give_up(&self, shards: &[u16]) {
        let mut ending = Vec::new();
        {
            let mut all = self.all.lock();
            for shard in shards {
                let process = all.remove(shard);
                ending.extend(process.and_then(|process| Some((*shard, process.child?))));
            }
        }
        for (shard, child) in &ending {
            if let Err(error) = kill_process(Pid::from_child(child), Signal::TERM) {
                tracing::debug!(shard, %error, "the server of a shard has ended");
            }
        }
        let until = Instant::now() + HAND_OVER_WITHIN;
        for (shard, child) in ending {
            wait(shard, child, until);
        }
    }

    /// Gives all shards up.
    pub(super) fn give_up_all(&self) {
        let all: Vec<u16> = self.all.lock().keys().copied().collect();
        self.give_up(&all);
    }
}

impl ShardCommand {
    fn start(&self, shard: u16) -> std::io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(shard.to_string());
        // It ends when its input does. An interrupt at the terminal is for the node.
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.process_group(0).spawn()
    }
}

impl ShardProcess {
    fn note_end(&mut self, shard: u16, now: Instant, taken_over_pause: Duration) {
        let Some(child) = &mut self.child else {
            return;
        };
        match child.try_wait() {
            Ok(None) => return,
            Ok(Some(status)) => {
                tracing::warn!(shard, %status, "the server of a shard has ended, and is started again");
                let lived = now.saturating_duration_since(self.started);
                if lived > SETTLED_AFTER {
                    self.pause = PAUSES.0;
                }
                match is_taken_over(status) {
                    true => self.next_start = now + taken_over_pause,
                    false => self.wait_longer(now),
                }
            }
            Err(error) => {
                tracing::error!(shard, %error, "the server of a shard cannot be waited for");
                self.wait_longer(now);
            }
        }
        self.child = None;
    }

    fn wait_longer(&mut self, now: Instant) {
        self.next_start = now + self.pause;
        self.pause = PAUSES.1.min(self.pause * 2);
    }
}

fn is_taken_over(status: ExitStatus) -> bool {
    status.code() == Some(i32::from(DISK))
}

/// Waits for a server that was told to end.
fn wait(shard: u16, mut child: Child, until: Instant) {
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(None) => {
                tracing::warn!(shard, "the server of a shard does not end, and is killed");
                if let Err(error) = child.kill().and_then(|()| child.wait().map(drop)) {
                    tracing::error!(shard, %error, "the server of a shard cannot be killed");
                }
                return;
            }
            Ok(Some(_)) => return,
            Err(error) => {
                tracing::error!(shard, %error, "the server of a shard cannot be waited for");
                return;
            }
        }
    }
}

//! Operator work on a store, done by this process or by the server that holds the store.
//!
//! A command names a directory or a server. While a server holds the directory, its lock file
//! contains the server's URL, and the work is sent there ([`super::Context::admin`]).

use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use storage::{
    CompactReport, IndexKind, IndexReport, Leaving, Name, PartitionReport, PartsReport, Rebuilt,
    Store,
};

use crate::access::{self, Listed, NewPassword, NewUser, TokenRequest, Verifier};
use crate::client::Client;
use crate::config::Config;
use crate::dates::DateRange;
use crate::erase::{self, EraseRequest, Erased};
use crate::failure::{Failure, Result};
use crate::wiring;

/// A change of partitions by hand.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Drop,
    Detach,
    Attach,
}

impl Change {
    /// Returns the verb and its past participle.
    pub(super) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Drop => ("drop", "dropped"),
            Self::Detach => ("detach", "detached"),
            Self::Attach => ("attach", "attached"),
        }
    }
}

/// Result of a seal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sealed {
    /// Exclusive end of the sealed sequence numbers; `None` for several shards.
    pub(super) last_run: Option<u64>,
    pub(super) events: u64,
}

/// Operator work that needs the only writer of the store.
pub(super) trait Admin {
    /// Seals the memtable and applies the retention of levels.
    fn seal(&self) -> Result<Sealed>;
    /// Merges tiles until no more can be merged.
    fn compact_tiles(&self) -> Result<CompactReport>;
    /// Merges parts of a stream, or of all, until no more can be merged.
    fn compact_parts(&self, stream: Option<&Name>) -> Result<PartsReport>;
    /// Recomputes the partitions of a rollup that begin in a range from raw events.
    fn rebuild(&self, rollup: &Name, range: &DateRange) -> Result<Vec<Rebuilt>>;
    /// Drops a rollup that the configuration does not name. Returns the number of events that it
    /// had counted.
    fn drop_rollup(&self, rollup: &Name) -> Result<u64>;
    /// Drops, detaches or attaches the partitions of a date or range.
    fn change_partitions(
        &self,
        change: Change,
        stream: &Name,
        range: &DateRange,
        dry: bool,
    ) -> Result<PartitionReport>;
    /// Erases the events that pass a condition.
    fn erase(&self, stream: &Name, request: &EraseRequest) -> Result<Erased>;
    /// Drops the partitions that are beyond the retention.
    fn retain(&self, stream: Option<&Name>, dry: bool) -> Result<Vec<Leaving>>;
    /// Requests an index of a column.
    fn create_index(&self, stream: &Name, field: &str, kind: IndexKind) -> Result<()>;
    /// Builds the requested indexes; `None` if the server builds them in the background.
    fn build_indexes(&self) -> Result<Option<IndexReport>>;
    /// Drops the index of a column.
    fn drop_index(&self, stream: &Name, field: &str) -> Result<()>;
    /// Returns the users.
    fn users(&self) -> Result<Vec<Listed>>;
    fn add_user(&self, name: &str, user: NewUser) -> Result<()>;
    fn change_password(&self, name: &str, verifier: Verifier) -> Result<()>;
    fn remove_user(&self, name: &str) -> Result<()>;
    /// Returns the tokens.
    fn tokens(&self) -> Result<Vec<Listed>>;
    /// Creates a token. Returns its description, the only one with the token itself.
    fn create_token(&self, name: &str, request: &TokenRequest) -> Result<serde_json::Value>;
    fn revoke_token(&self, name: &str) -> Result<()>;
    /// Ends the work, and closes the store if this process opened it.
    fn close(self: Box<Self>) -> Result<()>;
}

/// A store opened by this process.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) store: Store,
    pub(super) config: Config,
}

impl Admin for Local {
    fn seal(&self) -> Result<Sealed> {
        let report = self.store.seal()?;
        self.store.retain_levels()?;
        while self.store.backfill() {}
        Ok(Sealed {
            last_run: Some(report.cutoff),
            events: report.events,
        })
    }

    fn compact_tiles(&self) -> Result<CompactReport> {
        Ok(self.store.compact_tiles(true)?)
    }

    fn compact_parts(&self, stream: Option<&Name>) -> Result<PartsReport> {
        Ok(self.store.compact_parts(stream, true)?)
    }

    fn rebuild(&self, rollup: &Name, range: &DateRange) -> Result<Vec<Rebuilt>> {
        Ok(self.store.rebuild(rollup, range.us)?)
    }

    fn drop_rollup(&self, rollup: &Name) -> Result<u64> {
        Ok(self.store.drop_rollup(rollup)?)
    }

    fn change_partitions(
        &self,
        change: Change,
        stream: &Name,
        range: &DateRange,
        dry: bool,
    ) -> Result<PartitionReport> {
        Ok(match change {
            Change::Drop => self.store.drop_partitions(stream, range.us, dry)?,
            Change::Detach => self.store.detach_partitions(stream, range.us, dry)?,
            Change::Attach => self.store.attach_partitions(stream, range.us)?,
        })
    }

    fn erase(&self, stream: &Name, request: &EraseRequest) -> Result<Erased> {
        let runtime = wiring::runtime()?;
        let with = (&self.config, runtime.handle());
        Ok(erase::erase(with, &self.store, stream, request)?.into())
    }

    fn retain(&self, stream: Option<&Name>, dry: bool) -> Result<Vec<Leaving>> {
        Ok(self.store.retain(stream, dry)?)
    }

    fn create_index(&self, stream: &Name, field: &str, kind: IndexKind) -> Result<()> {
        self.store.create_index(stream, field, kind)?;
        Ok(())
    }

    fn build_indexes(&self) -> Result<Option<IndexReport>> {
        Ok(Some(self.store.build_indexes()?))
    }

    fn drop_index(&self, stream: &Name, field: &str) -> Result<()> {
        Ok(self.store.drop_index(stream, field)?)
    }

    fn users(&self) -> Result<Vec<Listed>> {
        Ok(access::read(&self.store)?.list_users())
    }

    fn add_user(&self, name: &str, user: NewUser) -> Result<()> {
        access::change_in(&self.store, |all| {
            all.add_user(name, user.grant, user.verifier)
        })
    }

    fn change_password(&self, name: &str, verifier: Verifier) -> Result<()> {
        access::change_in(&self.store, |all| all.change_password(name, verifier))
    }

    fn remove_user(&self, name: &str) -> Result<()> {
        access::change_in(&self.store, |all| all.remove_user(name))
    }

    fn tokens(&self) -> Result<Vec<Listed>> {
        Ok(access::read(&self.store)?.list_tokens())
    }

    fn create_token(&self, name: &str, request: &TokenRequest) -> Result<serde_json::Value> {
        access::change_in(&self.store, |all| {
            let (token, said) = all.create_token(name, request)?;
            Ok((all.shown_once(name, &token), said))
        })
    }

    fn revoke_token(&self, name: &str) -> Result<()> {
        access::change_in(&self.store, |all| all.revoke_token(name))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.store.close()?)
    }
}

/// A running server.
#[derive(Debug)]
pub(super) struct Remote(pub(super) Client);

impl Admin for Remote {
    fn seal(&self) -> Result<Sealed> {
        let answer = self.0.post("/api/v1/rollups/run")?;
        Ok(Sealed {
            last_run: answer["last_run"].as_u64(),
            events: answer["events"].as_u64().unwrap_or(0),
        })
    }

    fn compact_tiles(&self) -> Result<CompactReport> {
        report(self.0.post("/api/v1/rollups/compact")?)
    }

    fn compact_parts(&self, stream: Option<&Name>) -> Result<PartsReport> {
        let only = stream.map_or(String::new(), |name| format!("?stream={name}"));
        report(self.0.post(&format!("/api/v1/partitions/compact{only}"))?)
    }

    fn rebuild(&self, rollup: &Name, range: &DateRange) -> Result<Vec<Rebuilt>> {
        let (from, to) = range.text.split_once("..").unwrap_or((&range.text, ""));
        let path = format!("/api/v1/rollups/{rollup}/rebuild?from={from}&to={to}");
        report(self.0.post(&path)?)
    }

    fn drop_rollup(&self, rollup: &Name) -> Result<u64> {
        let answer = self.0.drop_rollup(rollup.as_str())?;
        Ok(answer["events"].as_u64().unwrap_or(0))
    }

    fn change_partitions(
        &self,
        change: Change,
        stream: &Name,
        range: &DateRange,
        dry: bool,
    ) -> Result<PartitionReport> {
        if matches!(change, Change::Drop) {
            return self.0.drop_partitions(stream.as_str(), &range.text, dry);
        }
        let mut query = vec![("stream", stream.as_str()), ("date", range.text.as_str())];
        query.extend(dry.then_some(("dry_run", "true")));
        self.0.partitions(change.words().0, &query)
    }

    fn erase(&self, stream: &Name, request: &EraseRequest) -> Result<Erased> {
        let path = format!("/api/v1/streams/{stream}/erase");
        report(self.0.post_json(&path, request)?)
    }

    fn retain(&self, stream: Option<&Name>, dry: bool) -> Result<Vec<Leaving>> {
        let dry = dry.to_string();
        let mut query = vec![("dry_run", dry.as_str())];
        query.extend(stream.map(|name| ("stream", name.as_str())));
        self.0.partitions("retain", &query)
    }

    fn create_index(&self, stream: &Name, field: &str, kind: IndexKind) -> Result<()> {
        self.0.create_index(stream.as_str(), field, kind)?;
        Ok(())
    }

    fn build_indexes(&self) -> Result<Option<IndexReport>> {
        Ok(None)
    }

    fn drop_index(&self, stream: &Name, field: &str) -> Result<()> {
        self.0.drop_index(stream.as_str(), field)?;
        Ok(())
    }

    fn users(&self) -> Result<Vec<Listed>> {
        report(self.0.get_json("/api/v1/users", &[])?)
    }

    fn add_user(&self, name: &str, user: NewUser) -> Result<()> {
        self.0.put_json(&account_path("users", name), &user)?;
        Ok(())
    }

    fn change_password(&self, name: &str, verifier: Verifier) -> Result<()> {
        let path = format!("{}/password", account_path("users", name));
        self.0.put_json(&path, &NewPassword { verifier })?;
        Ok(())
    }

    fn remove_user(&self, name: &str) -> Result<()> {
        self.0.delete(&account_path("users", name))?;
        Ok(())
    }

    fn tokens(&self) -> Result<Vec<Listed>> {
        report(self.0.get_json("/api/v1/tokens", &[])?)
    }

    fn create_token(&self, name: &str, request: &TokenRequest) -> Result<serde_json::Value> {
        self.0.post_json(&account_path("tokens", name), request)
    }

    fn revoke_token(&self, name: &str) -> Result<()> {
        self.0.delete(&account_path("tokens", name))?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Escapes the name, which may not be valid: the server says so.
fn account_path(kind: &str, name: &str) -> String {
    let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
    format!("/api/v1/{kind}/{name}")
}

fn report<T: DeserializeOwned>(answer: serde_json::Value) -> Result<T> {
    Ok(serde_json::from_value(answer).map_err(anyhow::Error::from)?)
}

/// Returns the server that holds a directory, if opening the directory failed for that reason.
pub(super) fn holder(data: &Path, failure: &Failure) -> Option<Result<Client>> {
    let Some(storage::Error::Locked { url: Some(url), .. }) = failure.storage() else {
        return None;
    };
    crate::failure::note(format_args!(
        "{} is held by the server at {url}; sending the command to it",
        data.display()
    ));
    Some(client_of_holder(data, url))
}

/// Returns the server that a directory names as its writer, if that process lives. It may be
/// another process of the same number.
pub(super) fn living_holder(data: &Path) -> Option<Result<Client>> {
    let (process, url) = storage::recorded_writer(&*wiring::disk(), data)?;
    let process = Pid::from_raw(i32::try_from(process).ok()?)?;
    let lives = match test_kill_process(process) {
        // A process of another user.
        Err(error) => error == Errno::PERM,
        Ok(()) => true,
    };
    lives.then(|| client_of_holder(data, &url))
}

fn client_of_holder(data: &Path, url: &str) -> Result<Client> {
    // Whoever can read the directory could do the work there; the secret proves it.
    let secret = storage::operator_secret(&*wiring::disk(), data).map(SecretString::from);
    Ok(Client::of_holder(url)?.with_token(secret))
}

//! The audit: failed logins, and changes of users and tokens.
//!
//! The latest [`ENTRIES_MAX`] of each are kept in memory, and each goes to the server's log. Failed
//! logins of one name from one address within a minute are one entry with a count, so that a flood
//! of them does not push the others out.

use std::collections::VecDeque;
use std::net::IpAddr;

use parking_lot::Mutex;
use query::AuditInfo;

use super::now_s;

const ENTRIES_MAX: usize = 10_000;
/// Failed logins are counted together for this time, seconds.
const TOGETHER_S: i64 = 60;
/// Entries that are searched for one to count a failed login with.
const SEARCHED: usize = 100;
const NAME_CHARS_MAX: usize = 64;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AuditEntry {
    /// Seconds since 1970.
    time_s: i64,
    /// `login failed`, or `changed`.
    event: &'static str,
    /// The account, or the name that was given.
    who: String,
    address: Option<IpAddr>,
    detail: String,
    count: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Audit {
    logins: Mutex<VecDeque<AuditEntry>>,
    changes: Mutex<VecDeque<AuditEntry>>,
}

impl Audit {
    pub(super) fn login_failed(&self, who: &str, from: IpAddr) {
        let who: String = who.chars().take(NAME_CHARS_MAX).collect();
        let (event, now) = ("login failed", now_s());
        let mut entries = self.logins.lock();
        let same = entries.iter_mut().rev().take(SEARCHED).find(|e| {
            e.event == event
                && e.who == who
                && e.address == Some(from)
                && now - e.time_s < TOGETHER_S
        });
        if let Some(entry) = same {
            entry.count += 1;
            return;
        }
        tracing::warn!(who, address = %from, "a login failed");
        push(
            &mut entries,
            AuditEntry {
                time_s: now,
                event,
                who,
                address: Some(from),
                detail: String::new(),
                count: 1,
            },
        );
    }

    pub(super) fn changed(&self, who: &str, from: Option<IpAddr>, detail: String) {
        tracing::info!(
            who,
            address = from.map(tracing::field::display),
            detail,
            "changed the users and tokens"
        );
        push(
            &mut self.changes.lock(),
            AuditEntry {
                time_s: now_s(),
                event: "changed",
                who: who.to_owned(),
                address: from,
                detail,
                count: 1,
            },
        );
    }

    /// Returns the entries as rows of `system.audit`, oldest first.
    pub(crate) fn infos(&self) -> Vec<AuditInfo> {
        let mut entries: Vec<AuditEntry> = self.logins.lock().iter().cloned().collect();
        entries.extend(self.changes.lock().iter().cloned());
        entries.sort_by_key(|entry| entry.time_s);
        let infos = entries.iter().map(|entry| AuditInfo {
            time_us: entry.time_s.saturating_mul(1_000_000),
            event: entry.event,
            who: entry.who.clone(),
            address: entry.address.map(|address| address.to_string()),
            detail: entry.detail.clone(),
            count: entry.count,
        });
        infos.collect()
    }
}

fn push(entries: &mut VecDeque<AuditEntry>, entry: AuditEntry) {
    if entries.len() >= ENTRIES_MAX {
        entries.pop_front();
    }
    entries.push_back(entry);
}

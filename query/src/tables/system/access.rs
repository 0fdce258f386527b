//! `system.users` and `system.audit`.

use super::{AccountInfo, AuditInfo, SystemColumn, int, of, stamp, text};

/// Users and tokens, without anything that a login could be made with.
pub(super) fn users(rows: &[AccountInfo]) -> Vec<SystemColumn> {
    let streams = |patterns: &[String]| (!patterns.is_empty()).then(|| patterns.join(", "));
    vec![
        text("name", of(rows, |a| Some(a.name.clone()))),
        text("kind", of(rows, |a| Some(a.kind.to_owned()))),
        text("role", of(rows, |a| Some(a.role.to_owned()))),
        text("streams", of(rows, |a| streams(&a.streams))),
        stamp("created", of(rows, |a| Some(a.created_us))),
        stamp("expires", of(rows, |a| a.expires_us)),
    ]
}

/// Failed logins, and changes of users and tokens.
pub(super) fn audit(rows: &[AuditInfo]) -> Vec<SystemColumn> {
    vec![
        stamp("time", of(rows, |e| Some(e.time_us))),
        text("event", of(rows, |e| Some(e.event.to_owned()))),
        text("who", of(rows, |e| Some(e.who.clone()))),
        text("address", of(rows, |e| e.address.clone())),
        text("detail", of(rows, |e| Some(e.detail.clone()))),
        int("count", of(rows, |e| Some(e.count))),
    ]
}

//! Prepared statements: texts with the values of their parameters, which the server keeps under
//! random handles.
//!
//! # Invariants
//! * A statement belongs to the account that prepared it; to others its handle is unknown.
//! * A statement keeps its text, not its plan: each call reads the present tables.
//! * One account has a bounded number of statements and bytes, all accounts have a bounded number
//!   of bytes together, and a statement that is not used for a time is forgotten.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use query::ScalarValue;
use ring::rand::{SecureRandom, SystemRandom};
use tonic::Status;

use super::status;
use crate::access::Principal;
use crate::failure::Class;

/// A statement that is not used for this time is forgotten.
const IDLE: Duration = Duration::from_secs(1800);
/// Maximum statements of an account, and bytes of their texts and values.
const OWN_MAX: usize = 1_000;
const OWN_BYTES_MAX: usize = 8 << 20;
/// Maximum bytes of the statements of all accounts.
const BYTES_MAX: usize = 128 << 20;
const HANDLE_BYTES: usize = 16;

type Handle = [u8; HANDLE_BYTES];

/// The prepared statements of all clients.
#[derive(Debug, Default)]
pub(super) struct Statements(Mutex<HashMap<Handle, KeptStatement>>);

/// A prepared statement.
#[derive(Debug)]
struct KeptStatement {
    owner: String,
    sql: String,
    values: Vec<ScalarValue>,
    used: Instant,
}

impl KeptStatement {
    fn bytes(&self) -> usize {
        let values = self.values.iter().map(ScalarValue::size);
        self.owner.len() + self.sql.len() + values.sum::<usize>()
    }
}

impl Statements {
    /// Keeps a statement. Returns its handle.
    ///
    /// # Errors
    /// If the account has too many.
    pub(super) fn add(&self, owner: &Principal, sql: &str) -> Result<Vec<u8>, Status> {
        let mut handle = Handle::default();
        let filled = SystemRandom::new().fill(&mut handle);
        filled.map_err(|_| Status::internal("the system has no random bytes"))?;
        let mut all = self.0.lock();
        all.retain(|_, held| held.used.elapsed() < IDLE);
        let own = all.values().filter(|held| held.owner == owner.name());
        if own.count() >= OWN_MAX {
            return Err(too_many());
        }
        check_room(&all, owner, sql.len())?;
        let held = KeptStatement {
            owner: owner.name().to_owned(),
            sql: sql.to_owned(),
            values: Vec::new(),
            used: Instant::now(),
        };
        all.insert(handle, held);
        Ok(handle.to_vec())
    }

    /// Sets the values of a statement's parameters.
    ///
    /// # Errors
    /// If there is no such statement, or the account's statements have too many bytes.
    pub(super) fn bind(
        &self,
        owner: &Principal,
        handle: &[u8],
        values: Vec<ScalarValue>,
    ) -> Result<(), Status> {
        let mut all = self.0.lock();
        let bytes = values.iter().map(ScalarValue::size).sum();
        find(&mut all, owner, handle)?.values = Vec::new();
        check_room(&all, owner, bytes)?;
        find(&mut all, owner, handle)?.values = values;
        Ok(())
    }

    /// Returns the text of a statement and the values of its parameters.
    ///
    /// # Errors
    /// If there is no such statement.
    pub(super) fn get(
        &self,
        owner: &Principal,
        handle: &[u8],
    ) -> Result<(String, Vec<ScalarValue>), Status> {
        let mut all = self.0.lock();
        let held = find(&mut all, owner, handle)?;
        Ok((held.sql.clone(), held.values.clone()))
    }

    /// Forgets a statement. A client may close one that was forgotten already.
    pub(super) fn close(&self, owner: &Principal, handle: &[u8]) {
        let mut all = self.0.lock();
        if find(&mut all, owner, handle).is_ok() {
            all.remove(handle);
        }
    }
}

/// Finds a statement of an account, and notes its use.
fn find<'a>(
    all: &'a mut HashMap<Handle, KeptStatement>,
    owner: &Principal,
    handle: &[u8],
) -> Result<&'a mut KeptStatement, Status> {
    let held = all.get_mut(handle);
    let held = held.filter(|held| held.owner == owner.name() && held.used.elapsed() < IDLE);
    match held {
        Some(held) => {
            held.used = Instant::now();
            Ok(held)
        }
        None => {
            let hint = "prepare it again: statements are forgotten after 30 minutes without use, and when the server starts";
            Err(status::invalid(
                "there is no such prepared statement",
                Some(hint),
            ))
        }
    }
}

/// Checks that there is room for so many more bytes.
fn check_room(
    all: &HashMap<Handle, KeptStatement>,
    owner: &Principal,
    bytes: usize,
) -> Result<(), Status> {
    let (mut own_bytes, mut all_bytes) = (bytes, bytes);
    for held in all.values() {
        let bytes = held.bytes();
        all_bytes += bytes;
        if held.owner == owner.name() {
            own_bytes += bytes;
        }
    }
    if own_bytes > OWN_BYTES_MAX {
        return Err(too_many());
    }
    if all_bytes > BYTES_MAX {
        let message = format!("the prepared statements of all clients have {BYTES_MAX} bytes");
        let hint = "close some, or send the statement without preparing it";
        return Err(status::of_class(Class::Overloaded, &message, Some(hint)));
    }
    Ok(())
}

fn too_many() -> Status {
    let message = format!(
        "an account has at most {OWN_MAX} prepared statements, of {OWN_BYTES_MAX} bytes together"
    );
    status::of_class(Class::TooMany, &message, Some("close some"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_belongs_to_its_account_and_an_account_has_a_bounded_number() {
        let statements = Statements::default();
        let (ann, bob) = (Principal::reader("ann"), Principal::reader("bob"));
        let handle = statements.add(&ann, "SELECT $1").expect("room");
        let value = ScalarValue::Int64(Some(7));
        statements
            .bind(&ann, &handle, vec![value.clone()])
            .expect("bound");
        let held = statements.get(&ann, &handle).expect("held");
        assert_eq!(held, ("SELECT $1".to_owned(), vec![value]));
        assert!(statements.get(&bob, &handle).is_err());
        assert!(statements.bind(&bob, &handle, Vec::new()).is_err());
        statements.close(&bob, &handle);
        assert!(statements.get(&ann, &handle).is_ok());
        statements.close(&ann, &handle);
        assert!(statements.get(&ann, &handle).is_err());
        for _ in 0..OWN_MAX {
            statements.add(&ann, "SELECT 1").expect("room");
        }
        let refused = statements.add(&ann, "SELECT 1").expect_err("too many");
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        let long = "x".repeat(OWN_BYTES_MAX + 1);
        assert!(statements.add(&bob, &long).is_err());
        assert!(statements.add(&bob, "SELECT 1").is_ok());
    }
}

//! The time and the memory of one evaluation.
//!
//! # Invariants
//! * Between two looks at the clock lie few steps. A value counts as many steps as it has bytes to
//!   copy, so that operators in loops cannot hide their work.
//! * The values that are held at once, at all levels of an expression, have bounded bytes.

use std::cell::Cell;
use std::time::Instant;

use crate::mongo::error::{QueryError, Result};

/// Steps between two looks at the clock.
const STEPS_MAX: usize = 1024;
/// Bytes of a value that count as one step.
const STEP_BYTES: usize = 64;
/// Maximum bytes of memory of the values that one evaluation holds.
const HELD_BYTES_MAX: usize = 256 << 20;

/// Measures an evaluation, or another work in steps.
#[derive(Debug)]
pub(in crate::mongo) struct EvaluationMeter {
    deadline: Option<Instant>,
    steps: Cell<usize>,
    held: Cell<usize>,
}

impl EvaluationMeter {
    /// Begins with the time by which the work must end; `None` for any time.
    pub(in crate::mongo) fn new(deadline: Option<Instant>) -> Self {
        Self {
            deadline,
            // The first step looks at the clock: many evaluations are short.
            steps: Cell::new(STEPS_MAX),
            held: Cell::new(0),
        }
    }

    /// Counts a step.
    ///
    /// # Errors
    /// 50 after the deadline.
    pub(in crate::mongo) fn step(&self) -> Result<()> {
        self.count(1)
    }

    /// Counts the steps of a value of so many bytes.
    ///
    /// # Errors
    /// 50 after the deadline.
    pub(in crate::mongo) fn step_over(&self, bytes: usize) -> Result<()> {
        self.count(1 + bytes / STEP_BYTES)
    }

    fn count(&self, steps: usize) -> Result<()> {
        let Some(deadline) = self.deadline else {
            return Ok(());
        };
        let steps = self.steps.get().saturating_add(steps);
        if steps < STEPS_MAX {
            self.steps.set(steps);
            return Ok(());
        }
        self.steps.set(0);
        check_deadline(deadline)
    }

    /// Returns a count of values that are held, which ends with it.
    pub(super) fn hold(&self) -> HeldValues<'_> {
        let (meter, bytes) = (self, 0);
        HeldValues { meter, bytes }
    }
}

/// Refuses to go on after a deadline.
///
/// # Errors
/// 50.
pub(in crate::mongo) fn check_deadline(deadline: Instant) -> Result<()> {
    if Instant::now() <= deadline {
        return Ok(());
    }
    let message = "the query ran out of the time that maxTimeMS or the server allows";
    Err(QueryError::located(50, message))
}

/// Values that one operator holds while it evaluates others.
#[derive(Debug)]
pub(super) struct HeldValues<'a> {
    meter: &'a EvaluationMeter,
    bytes: usize,
}

impl HeldValues<'_> {
    /// Adds a value of so many bytes of memory.
    ///
    /// # Errors
    /// 17419 if all operators together hold too many.
    pub(super) fn add(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        let held = self.meter.held.get() + bytes;
        self.meter.held.set(held);
        if held <= HELD_BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "an expression holds more than {HELD_BYTES_MAX} bytes of values at once; \
             make smaller arrays"
        );
        Err(QueryError::located(17419, message))
    }
}

impl Drop for HeldValues<'_> {
    fn drop(&mut self) {
        self.meter.held.set(self.meter.held.get() - self.bytes);
    }
}

//! Mergeable states that stand alone: what the SQL columns `size` and `visitors_state` hold.
//!
//! Each is a commutative monoid with one canonical encoding: whatever the order and bracketing of
//! merges, the same observations give the same bytes. Decoding trusts nothing.

mod distinct;
mod histogram;

pub use distinct::Distinct;
pub(crate) use distinct::{
    COUPONS_MAX, REGISTERS, RHO_MAX, Registers, decode_registers, encode_registers, estimate,
    observe,
};
pub use histogram::{Histogram, Layout};
pub(crate) use histogram::{HistogramParts, SCALE, quantile};

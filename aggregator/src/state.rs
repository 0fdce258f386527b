//! Mergeable states that stand alone: the contents of SQL columns such as `size` and
//! `visitors_state`.
//!
//! Each is a commutative monoid with one canonical encoding: any order and bracketing of merges of
//! the same observations produces the same bytes. Decoding trusts no input.

mod distinct;
mod histogram;
mod kind;

pub use distinct::Distinct;
pub(crate) use distinct::{
    COUPONS_MAX, REGISTERS, RHO_MAX, Registers, decode_registers, encode_registers, estimate,
    observe,
};
pub use histogram::{Histogram, HistogramBucket, Layout};
pub(crate) use histogram::{HistogramParts, SCALE, quantile};
pub use kind::{STATE, StateKind};

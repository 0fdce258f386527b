//! MongoDB's query language over streams.
//!
//! A [`Filter`] is exact on documents, and [`scan`] reads the events that may match it;
//! [`EventDocuments`] makes documents of them. [`Projection`], [`TopK`] and [`DistinctValues`] are
//! the rest of `find` and `distinct`.
//!
//! # Invariants
//! * Values compare as in MongoDB: across types, and numbers by their exact values.
//! * A scan leaves out no event whose document matches.

mod distinct;
mod error;
mod events;
mod filter;
mod path;
mod projection;
mod scan;
mod sort;
mod value;

pub use distinct::DistinctValues;
pub use error::QueryError;
pub use events::EventDocuments;
pub use filter::Filter;
pub use projection::Projection;
pub use scan::scan;
pub use sort::{Sort, TopK};

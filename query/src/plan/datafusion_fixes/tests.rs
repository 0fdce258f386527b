//! Queries that DataFusion alone answers wrongly.

mod filters;
mod first_rows;
mod groups;

//! Queries over stores on a real disk.

mod levels;
mod streams;
mod support;

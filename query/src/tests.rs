//! Queries over stores on a real disk.

mod documents;
mod levels;
mod rot;
mod streams;
mod support;

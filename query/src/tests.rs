//! Queries over stores on a real disk.

mod levels;
mod rot;
mod streams;
mod support;

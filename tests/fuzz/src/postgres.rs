//! The reader of messages of the program's `postgres`.

#[path = "../../../src/postgres"]
mod source {
    pub(crate) mod message;
}

pub(crate) use source::message;

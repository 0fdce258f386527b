//! The reader of messages of the program's `mongo`.

#[path = "../../../src/mongo"]
mod source {
    pub(crate) mod message;
}

pub(crate) use source::message;

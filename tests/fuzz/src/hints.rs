//! Parts of `query`'s `plan::hints`.

#[path = "../../../query/src/plan/hints/fuzzing.rs"]
pub(crate) mod fuzzing;
#[path = "../../../query/src/plan/hints/text.rs"]
mod text;

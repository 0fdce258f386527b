//! Parts of the program's `server`.

#[path = "../../../src/server/credentials.rs"]
pub(crate) mod credentials;
#[path = "../../../src/server/own_names.rs"]
pub(crate) mod own_names;
#[path = "../../../src/server/request_parameters.rs"]
pub(crate) mod request_parameters;

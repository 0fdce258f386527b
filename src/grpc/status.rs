//! Errors as gRPC reports them: a status with a message that ends with its hint
//! (gRPC's documentation, "Status codes and their use in gRPC").

use tonic::{Code, Status};

use crate::access::Refused;
use crate::failure::Class;
use crate::serve::Exceeded;

/// Maximum bytes of a message. It stands in a header, where a character may take three times its
/// bytes, and clients take headers of 16 KiB at least.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// Returns the status of a failure of a class.
pub(crate) fn of_class(class: Class, message: &str, hint: Option<&str>) -> Status {
    with_hint(code_of(class), message, hint)
}

pub(crate) fn with_hint(code: Code, message: &str, hint: Option<&str>) -> Status {
    let mut text = message.to_owned();
    if let Some(hint) = hint {
        text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX.saturating_sub(hint.len() + 2)));
        text += "; ";
        text += hint;
    }
    text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
    Status::new(code, text)
}

pub(crate) fn code_of(class: Class) -> Code {
    match class {
        Class::Invalid | Class::InvalidQuery => Code::InvalidArgument,
        Class::Unauthenticated => Code::Unauthenticated,
        Class::Forbidden => Code::PermissionDenied,
        Class::TooMany | Class::TooLarge | Class::DiskFull => Code::ResourceExhausted,
        Class::Conflict => Code::AlreadyExists,
        Class::Cancelled => Code::Cancelled,
        Class::Overloaded | Class::Unavailable => Code::Unavailable,
        Class::Unknown => Code::Unknown,
        Class::Corrupt => Code::DataLoss,
        Class::Internal => Code::Internal,
    }
}

/// Returns the status of a client that has reached its share.
pub(crate) fn of_share(exceeded: &Exceeded) -> Status {
    of_class(Class::TooMany, &exceeded.message(), Some(exceeded.hint()))
}

/// Returns the status of a refused login.
pub(crate) fn of_login(refused: Refused) -> Status {
    let (class, message, hint) = refused.explained();
    if let Refused::Slow(wait) = refused {
        let hint = format!("try again in {} seconds", wait.as_secs() + 1);
        return of_class(class, message, Some(&hint));
    }
    of_class(class, message, Some(hint))
}

/// Returns the status of a request that is wrong in itself.
pub(crate) fn invalid(message: &str, hint: Option<&str>) -> Status {
    of_class(Class::Invalid, message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_at_a_character_and_keeps_its_hint() {
        let long = "é".repeat(MESSAGE_BYTES_MAX);
        let status = invalid(&long, Some("write less"));
        assert!(status.message().len() <= MESSAGE_BYTES_MAX);
        assert!(status.message().ends_with("é; write less"));
        let short = invalid(&long, None);
        assert_eq!(short.message().len(), MESSAGE_BYTES_MAX);
    }
}

//! The columns of Apache's directives and of nginx's variables.

use chrono::format::{Item, StrftimeItems};
use storage::ColumnType;

use super::{Number, TimeForm};

/// A column of every access log, for a value of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Core {
    Host,
    Logname,
    User,
    /// The request, cut into its parts.
    Request,
    Method,
    Path,
    /// Path and query.
    Target,
    Query,
    Protocol,
    Status,
    Size,
    Referrer,
    UserAgent,
    Site,
}

impl Core {
    /// Returns whether other values of a pattern tell this column: a request has all its parts, and
    /// a target has path and query.
    pub(super) fn is_told_by(self, cores: &[Core]) -> bool {
        match self {
            Self::Method | Self::Target | Self::Protocol => cores.contains(&Self::Request),
            Self::Path | Self::Query => {
                cores.contains(&Self::Request) || cores.contains(&Self::Target)
            }
            _ => false,
        }
    }
}

/// A part of a pattern, as its configuration has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PatternPart {
    Literal(Vec<u8>),
    /// The time, with its spelling.
    Time(String, TimeForm),
    Value(Value),
}

impl PatternPart {
    pub(super) fn core(&self) -> Option<Core> {
        match self {
            Self::Value(value) => value.core,
            Self::Literal(_) | Self::Time(..) => None,
        }
    }
}

/// A value of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) spelling: String,
    /// The column of access logs that it goes to, if no value before it does.
    pub(super) core: Option<Core>,
    /// The name of its column otherwise.
    pub(super) name: String,
    pub(super) column_type: ColumnType,
    pub(super) number: Number,
    /// It has a part for each server that was asked: `10.0.0.1:80, 10.0.0.2:80 : 10.0.0.3:80`.
    pub(super) is_list: bool,
}

/// Returns a value that is a text.
fn text(spelling: &str, core: Option<Core>, name: &str) -> Value {
    Value {
        spelling: spelling.to_owned(),
        core,
        name: name.to_owned(),
        column_type: ColumnType::Text,
        number: Number::One,
        is_list: false,
    }
}

fn number(spelling: &str, name: &str, column_type: ColumnType, number: Number) -> Value {
    Value {
        column_type,
        number,
        ..text(spelling, None, name)
    }
}

fn integer(spelling: &str, name: &str) -> Value {
    number(spelling, name, ColumnType::Int64, Number::One)
}

/// Returns a name as a column has it: small letters, digits and `_`.
fn column(name: &str) -> String {
    let letter = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_lowercase(),
        false => '_',
    };
    name.chars().map(letter).collect()
}

/// Returns the value of a header of a request.
fn header(spelling: &str, name: &str) -> Value {
    let name = column(name);
    let core = match &*name {
        "referer" => Some(Core::Referrer),
        "user_agent" => Some(Core::UserAgent),
        "host" => Some(Core::Site),
        _ => None,
    };
    match core {
        // A second host is not the name of the first one.
        Some(Core::Site) => text(spelling, core, "http_host"),
        _ => text(spelling, core, &name),
    }
}

/// Returns the value of a directive of `mod_log_config` (and `mod_logio`): `%{argument}letter`.
pub(super) fn apache(spelling: &str, letter: &str, argument: Option<&str>) -> Option<PatternPart> {
    let value = match (letter, argument) {
        ("h", None) => text(spelling, Some(Core::Host), "remote_host"),
        ("a", None) => text(spelling, Some(Core::Host), "client_ip"),
        ("a", Some("c")) => text(spelling, Some(Core::Host), "peer_ip"),
        ("A", None) => text(spelling, None, "local_ip"),
        ("l", None) => text(spelling, Some(Core::Logname), "logname"),
        ("u", None) => text(spelling, Some(Core::User), "user"),
        ("t", argument) => return time(spelling, argument),
        ("r", None) => text(spelling, Some(Core::Request), "request_line"),
        ("m", None) => text(spelling, Some(Core::Method), "request_method"),
        ("U", None) => text(spelling, Some(Core::Path), "url_path"),
        ("q", None) => text(spelling, Some(Core::Query), "query_string"),
        ("H", None) => text(spelling, Some(Core::Protocol), "request_protocol"),
        ("s", None) => Value {
            core: Some(Core::Status),
            ..integer(spelling, "other_status")
        },
        ("b" | "B", None) => Value {
            core: Some(Core::Size),
            ..integer(spelling, "response_size")
        },
        ("O", None) => integer(spelling, "bytes_sent"),
        ("I", None) => integer(spelling, "bytes_received"),
        ("S", None) => integer(spelling, "bytes_total"),
        ("D", None) | ("T", Some("us")) => integer(spelling, "request_time_us"),
        ("T", Some("ms")) => integer(spelling, "request_time_ms"),
        // Whole seconds, in the type of nginx's variable of the same name.
        ("T", None | Some("s")) => {
            number(spelling, "request_time", ColumnType::Float64, Number::One)
        }
        ("v", None) => text(spelling, Some(Core::Site), "server_name"),
        ("V", None) => text(spelling, Some(Core::Site), "host_name"),
        ("p", None | Some("canonical")) => integer(spelling, "server_port"),
        ("p", Some("local")) => integer(spelling, "local_port"),
        ("p", Some("remote")) => integer(spelling, "client_port"),
        ("P", None | Some("pid")) => integer(spelling, "pid"),
        ("P", Some("tid" | "hextid")) => text(spelling, None, "tid"),
        ("k", None) => integer(spelling, "keepalive_requests"),
        ("X", None) => text(spelling, None, "connection_status"),
        ("L", None) => text(spelling, None, "log_id"),
        ("f", None) => text(spelling, None, "file"),
        ("R", None) => text(spelling, None, "handler"),
        ("i", Some(name)) => header(spelling, name),
        ("o", Some(name)) => text(spelling, None, &format!("sent_{}", column(name))),
        ("C", Some(name)) => text(spelling, None, &format!("cookie_{}", column(name))),
        ("e", Some(name)) => text(spelling, None, &format!("env_{}", column(name))),
        ("n", Some(name)) => text(spelling, None, &format!("note_{}", column(name))),
        ("ti" | "to", Some(name)) => text(spelling, None, &format!("trailer_{}", column(name))),
        ("c" | "x", Some(name)) => text(spelling, None, &format!("ssl_{}", column(name))),
        _ => return None,
    };
    Some(PatternPart::Value(value))
}

/// Returns the time of `%t`, `%{sec}t` or `%{format}t`.
fn time(spelling: &str, format: Option<&str>) -> Option<PatternPart> {
    let format = format.map(|format| {
        let end = format.strip_prefix("end:");
        end.or_else(|| format.strip_prefix("begin:"))
            .unwrap_or(format)
    });
    let clock = match format {
        None | Some("") => TimeForm::Access { in_brackets: true },
        Some("sec" | "msec" | "usec") => TimeForm::Stamp,
        Some("msec_frac") => TimeForm::Pieces(vec!["%3f".to_owned()]),
        Some("usec_frac") => TimeForm::Pieces(vec!["%6f".to_owned()]),
        Some(format) => {
            let is_known = |item| !matches!(item, Item::Error);
            if !StrftimeItems::new(format).all(is_known) {
                return None;
            }
            TimeForm::Pieces(vec![format.to_owned()])
        }
    };
    Some(PatternPart::Time(spelling.to_owned(), clock))
}

/// Returns the value of a variable of nginx.
pub(super) fn nginx(variable: &str) -> PatternPart {
    let spelling = format!("${variable}");
    let spelling = spelling.as_str();
    let several = |column_type, kind| Value {
        is_list: true,
        ..number(spelling, variable, column_type, kind)
    };
    let value = match variable {
        "time_local" => {
            let clock = TimeForm::Access { in_brackets: false };
            return PatternPart::Time(spelling.to_owned(), clock);
        }
        "time_iso8601" | "msec" => return PatternPart::Time(spelling.to_owned(), TimeForm::Stamp),
        "remote_addr" => text(spelling, Some(Core::Host), variable),
        "remote_user" => text(spelling, Some(Core::User), variable),
        "request" => text(spelling, Some(Core::Request), "request_line"),
        "request_method" => text(spelling, Some(Core::Method), variable),
        "request_uri" => text(spelling, Some(Core::Target), variable),
        "uri" | "document_uri" => text(spelling, Some(Core::Path), variable),
        "args" | "query_string" => text(spelling, Some(Core::Query), variable),
        "server_protocol" => text(spelling, Some(Core::Protocol), variable),
        "status" => Value {
            core: Some(Core::Status),
            ..integer(spelling, variable)
        },
        "body_bytes_sent" => Value {
            core: Some(Core::Size),
            ..integer(spelling, variable)
        },
        "host" | "server_name" | "http_host" => text(
            spelling,
            Some(Core::Site),
            match variable {
                "host" => "host_name",
                other => other,
            },
        ),
        "request_time" => number(spelling, variable, ColumnType::Float64, Number::One),
        "bytes_sent"
        | "request_length"
        | "connection"
        | "connection_requests"
        | "pid"
        | "server_port"
        | "remote_port"
        | "proxy_protocol_port"
        | "content_length" => integer(spelling, variable),
        "connection_time" => number(spelling, variable, ColumnType::Float64, Number::One),
        "upstream_response_time"
        | "upstream_connect_time"
        | "upstream_header_time"
        | "upstream_queue_time"
        | "upstream_first_byte_time"
        | "upstream_session_time" => several(ColumnType::Float64, Number::Sum),
        "upstream_response_length" | "upstream_bytes_received" | "upstream_bytes_sent" => {
            several(ColumnType::Int64, Number::Sum)
        }
        "upstream_status" => several(ColumnType::Int64, Number::Last),
        "upstream_addr" => several(ColumnType::Text, Number::One),
        _ => match variable.strip_prefix("http_") {
            Some(name) => header(spelling, name),
            None => text(spelling, None, &column(variable)),
        },
    };
    PatternPart::Value(value)
}

//! The dialect of JSON that events are in: the program or library that writes objects so.
//!
//! A dialect changes nothing of how a line is read. Its name tells people where a field comes from,
//! and that the time is the field that they expect.

use super::FieldExplained;

/// One dialect: fields that every event has, each with its type, or any.
struct Dialect {
    name: &'static str,
    fields: &'static [(&'static str, Option<&'static str>)],
}

const INT: Option<&str> = Some("int64");
/// Of either type: seconds since 1970 are an integer where no line of a sample has a fraction.
const NUMBER: Option<&str> = Some("number");
const TEXT: Option<&str> = Some("text");

/// The dialects; the first one whose fields are there counts.
const DIALECTS: [Dialect; 8] = [
    // https://www.elastic.co/guide/en/ecs-logging/overview/current/intro.html
    Dialect {
        name: "ECS",
        fields: &[("@timestamp", None), ("log.level", TEXT), ("message", TEXT)],
    },
    // systemd.journal-fields(7)
    Dialect {
        name: "journald",
        fields: &[("__REALTIME_TIMESTAMP", None), ("__CURSOR", TEXT)],
    },
    // https://doc.traefik.io/traefik/observability/access-logs
    Dialect {
        name: "Traefik (access log)",
        fields: &[
            ("StartUTC", TEXT),
            ("RequestMethod", TEXT),
            ("Duration", INT),
        ],
    },
    // https://caddyserver.com/docs/logging: zap with an object of the request
    Dialect {
        name: "Caddy (access log)",
        fields: &[
            ("ts", None),
            ("logger", TEXT),
            ("request.method", TEXT),
            ("duration", None),
        ],
    },
    // https://github.com/trentm/node-bunyan#core-fields
    Dialect {
        name: "bunyan",
        fields: &[
            ("v", INT),
            ("level", INT),
            ("name", TEXT),
            ("hostname", TEXT),
            ("time", None),
        ],
    },
    // https://github.com/pinojs/pino/blob/main/docs/api.md
    Dialect {
        name: "pino",
        fields: &[
            ("level", INT),
            ("pid", INT),
            ("hostname", TEXT),
            ("time", None),
        ],
    },
    // https://docs.docker.com/engine/logging/drivers/json-file
    Dialect {
        name: "Docker (json-file)",
        fields: &[("log", TEXT), ("stream", TEXT), ("time", None)],
    },
    // https://pkg.go.dev/go.uber.org/zap#NewProductionEncoderConfig
    Dialect {
        name: "zap",
        fields: &[("level", TEXT), ("ts", NUMBER), ("msg", TEXT)],
    },
];

/// Returns the name of the dialect of some events by the fields that all of them have.
pub(super) fn dialect(fields: &[FieldExplained], events: u64) -> Option<&'static str> {
    let is_there = |(name, field_type): &(&str, Option<&str>)| {
        let mut fields = fields.iter().filter(|field| field.name == *name);
        fields.any(|field| {
            let is_of = |known: &str| match known {
                "number" => matches!(&*field.field_type, "int64" | "float64"),
                known => known == field.field_type,
            };
            field.values == events && field_type.is_none_or(is_of)
        })
    };
    let mut dialects = DIALECTS.iter();
    let found = dialects.find(|dialect| dialect.fields.iter().all(is_there));
    found.filter(|_| events > 0).map(|dialect| dialect.name)
}

#[cfg(test)]
mod tests;

use super::*;
use crate::{Format, ParseOptions, Parser};

fn origin(kind: Option<StreamKind>) -> BatchOrigin {
    BatchOrigin {
        stream: Name::new("access").unwrap(),
        source: "here".into(),
        received_us: 7,
        identity: None,
        kind,
    }
}

#[test]
fn a_stream_that_exists_keeps_its_kind() {
    let parse = || {
        let options = ParseOptions {
            format: Format::Plain,
            ..ParseOptions::default()
        };
        Parser::new(options).parse(b"text\n").unwrap()
    };
    assert_eq!(origin(None).batch(parse()).kind, StreamKind::Documents);
    let batch = origin(Some(StreamKind::Access)).batch(parse());
    assert_eq!(batch.kind, StreamKind::Access);
    assert_eq!((batch.items(), batch.received_us), (1, 7));
    batch.validate().unwrap();
}

#[test]
fn quarantined_lines_go_with_the_events() {
    let options = ParseOptions {
        format: Format::Json,
        ..ParseOptions::default()
    };
    let parsed = Parser::new(options).parse(b"{}\nno json\n").unwrap();
    let batch = origin(None).batch(parsed);
    assert_eq!((batch.events.num_rows(), batch.quarantine.len()), (1, 1));
    assert_eq!(origin(None).batch_of_nothing().items(), 0);
}

//! Formats whose header stands in the source: an import that is killed behind any piece goes on
//! with the header that governs its next line.

use std::path::Path;

use ingest::Parser;

use super::*;

/// A store that parses each piece for itself, as a server does, and keeps what becomes of it.
#[derive(Default)]
struct Pieces {
    lines: Lines,
    format: Format,
    /// Of each event its columns and values, and of each quarantined line its reason and place.
    outcome: Vec<String>,
    pieces: usize,
}

impl SourceMemory for Pieces {
    fn source_names(&self, prefix: &str) -> Result<Vec<String>> {
        self.lines.source_names(prefix)
    }

    fn source_states(&self, producer: &str) -> Result<Vec<SourcePosition>> {
        self.lines.source_states(producer)
    }
}

impl Sink for Pieces {
    fn piece_bytes(&self) -> usize {
        self.lines.piece_bytes
    }

    fn multiline(&self) -> Option<ingest::Multiline> {
        None
    }

    fn begin(&mut self, format: &Format) {
        self.format = format.clone();
    }

    fn take(&mut self, piece: SourcePiece<'_>, summary: &mut Summary) -> Result<Format> {
        let block = piece.block.clone();
        self.lines.take(piece, summary)?;
        let mut parser = Parser::new(ParseOptions {
            format: self.format.to_string().parse()?,
            received_us: 1_800_000_000_000_000,
            ..ParseOptions::default()
        });
        let parsed = parser.parse_block(&block)?;
        for row in 0..parsed.events.num_rows() {
            let schema = parsed.events.schema();
            let event = parsed.events.slice(row, 1);
            let columns = schema.fields().iter().zip(event.columns());
            let filled = columns.filter(|(_, column)| column.null_count() == 0);
            let values = filled.map(|(field, column)| format!("{} {column:?}", field.name()));
            self.outcome.push(values.collect());
        }
        let bad = parsed.quarantine.iter();
        let bad = bad.map(|item| format!("{} {} {}", item.reason, item.line, item.byte));
        self.outcome.extend(bad);
        self.pieces += 1;
        self.format = parsed.format;
        Ok(self.format.clone())
    }

    fn drain(&mut self, _: &mut Summary) -> Result<()> {
        Ok(())
    }
}

/// Imports a file, killed once behind some pieces.
fn outcome(format: &Format, file: &Path, killed_after: Option<usize>) -> (Vec<String>, usize) {
    let mut sink = Pieces {
        lines: Lines {
            piece_bytes: 50,
            fails_after: killed_after,
            ..Lines::default()
        },
        ..Pieces::default()
    };
    let files = &[file.to_owned()];
    let ended = import_as(format.clone(), &mut sink, files, &["--complete"]);
    assert_eq!(ended, killed_after.is_none());
    if !ended {
        sink.lines.fails_after = None;
        assert!(import_as(format.clone(), &mut sink, files, &["--complete"]));
    }
    (sink.outcome, sink.pieces)
}

#[test]
fn a_kill_behind_any_piece_changes_nothing() {
    let csv: String = (0..40)
        .map(|n| format!("2026-11-26T09:00:{n:02}Z,{n},\"a, {n}\"\n"))
        .collect();
    let w3c = |n: i32| match n % 5 {
        0 => format!("#Date: 2026-11-{:02}\n#Fields: time c-ip\n", n / 5 + 1),
        1 => "\nno time\n".to_owned(),
        _ => format!("09:00:{n:02} 192.0.2.{n}\n"),
    };
    let w3c: String = (0..40).map(w3c).collect();
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (format, text) in [
        (Format::Csv, format!("time,number,text\n{csv}")),
        (
            Format::Tsv,
            format!("ts\tb\n{}", "1700000000\t2\nbad\n".repeat(30)),
        ),
        (Format::W3c, w3c.clone()),
        (Format::Auto, w3c),
    ] {
        let file = dir.path().join(format.to_string());
        std::fs::write(&file, text).expect("a file");
        let (whole, pieces) = outcome(&format, &file, None);
        assert!(pieces > 10 && whole.len() > 20, "{pieces} {whole:?}");
        for killed_after in 0..pieces {
            let (resumed, _) = outcome(&format, &file, Some(killed_after));
            assert_eq!(
                resumed, whole,
                "{format} killed behind {killed_after} pieces"
            );
        }
    }
}

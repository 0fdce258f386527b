//! `logmill ship`: checks the arguments, runs the shipper, and prints its counts.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use storage::{Name, WriteConcern};

use super::{Context, Place};
use crate::cli::{Cli, ShipArgs};
use crate::failure::{Failure, Result};
use crate::intake;
use crate::interrupt::Interrupt;
use crate::serve::descriptors::raise_limit;
use crate::ship::{self, ShipOptions, ShipTarget};

/// Options whose values are paths.
const FILES: [&str; 3] = ["--token-file", "--ca-file", "--config"];
/// The longest `--site`, in bytes: each row of a batch may repeat it.
const TEXT_BYTES_MAX: usize = 1024;

pub(super) fn run(context: &Context, args: ShipArgs) -> Result<ExitCode> {
    let Place::Server(client) = &context.place else {
        return Err(Failure::usage(
            "ship sends to a server: name it with --server http://127.0.0.1:7070",
        ));
    };
    let print_unit = args.print_unit;
    let options = options(args)?;
    if print_unit {
        let program = std::env::current_exe()?;
        let here = std::env::current_dir()?;
        let words = std::env::args().skip(1);
        print!(
            "{}",
            ship::unit(&program, &words_of_unit(words, &options, &here))
        );
        return Ok(ExitCode::SUCCESS);
    }
    raise_limit();
    let (counts, outcome) = ship::run(&options, client, Interrupt::listen()?);
    println!("{counts}");
    outcome?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: ShipArgs) -> Result<ShipOptions> {
    let stream = Name::new(&args.stream).map_err(|e| Failure::usage(format!("--stream: {e}")))?;
    if stream.as_str().starts_with('_') {
        let why = "--stream: names that begin with _ are reserved";
        return Err(Failure::usage(why));
    }
    if args.files.iter().any(|f| f.as_os_str() == "-") {
        return Err(Failure::usage(
            "standard input has no content to return to; use `logmill import - --source NAME`",
        ));
    }
    let bytes = args.site.as_deref().map_or(0, str::len);
    if bytes > TEXT_BYTES_MAX {
        return Err(Failure::usage(format!(
            "--site has {bytes} bytes; the limit is {TEXT_BYTES_MAX}"
        )));
    }
    let format = args.format.map(|format| format.parse());
    let multiline = intake::multiline(args.multiline.as_deref(), None);
    let multiline = multiline.map_err(Failure::usage)?;
    let tz = args.tz.map(|tz| intake::zone(&tz).map(|_| tz));
    let targets = args.files.into_iter().map(ShipTarget::new);
    Ok(ShipOptions {
        targets: targets.collect::<Result<_, _>>().map_err(Failure::usage)?,
        stream: stream.to_string(),
        format: format
            .transpose()
            .map_err(|e: ingest::Error| Failure::usage(e))?,
        multiline,
        site: args.site,
        tz: tz.transpose()?,
        concern: concern(args.w.as_deref(), args.journal)?,
        from_end: args.from_end,
        once: args.once,
    })
}

/// Returns the write concern; `w=0` has no acknowledgement to go on from.
fn concern(w: Option<&str>, journal: bool) -> Result<WriteConcern> {
    let concern = WriteConcern::parse(Some(w.unwrap_or("1")), Some(journal));
    let concern = concern.map_err(Failure::usage)?;
    match w {
        Some("0") => Err(Failure::usage(
            "--w 0: a shipper needs acknowledgements; use 1 or majority",
        )),
        _ => Ok(concern),
    }
}

/// Returns the arguments of a unit, which runs in another folder: paths are made absolute.
fn words_of_unit(
    words: impl Iterator<Item = String>,
    options: &ShipOptions,
    here: &Path,
) -> Vec<String> {
    let given: Vec<&Path> = options.targets.iter().map(ShipTarget::path).collect();
    let cli = Cli::command();
    let ship = cli.find_subcommand("ship").expect("BUG: a command");
    let valued = cli.get_arguments().chain(ship.get_arguments());
    let valued = valued.filter(|option| option.get_action().takes_values());
    let valued: Vec<&str> = valued.filter_map(|option| option.get_long()).collect();
    let (mut is_path, mut is_value) = (false, false);
    let mut unit = Vec::new();
    for word in words.filter(|word| word != "--print-unit") {
        // A value of an option may be spelled like a target.
        let is_target = !is_value && given.iter().any(|path| *path == Path::new(&word));
        // The first part of a path that is absolute already replaces the folder.
        let absolute = |path: &str| here.join(path).display().to_string();
        let split = word
            .split_once('=')
            .filter(|(name, _)| FILES.contains(name));
        unit.push(match split {
            Some((name, path)) => format!("{name}={}", absolute(path)),
            None if is_path || is_target => absolute(&word),
            None => word.clone(),
        });
        is_path = FILES.contains(&&*word);
        is_value = word
            .strip_prefix("--")
            .is_some_and(|name| valued.contains(&name));
    }
    unit
}

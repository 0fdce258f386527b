//! `logmill ship`: checks the arguments, runs the shipper, and prints its counts.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use ingest::Format;
use storage::{Name, WriteConcern};

use super::{Context, Place};
use crate::cli::{Cli, ShipArgs};
use crate::failure::{Failure, Result};
use crate::intake;
use crate::interrupt::Interrupt;
use crate::serve::descriptors::raise_limit;
use crate::ship::{self, KafkaTarget, Receiver, Server, ShipOptions, ShipTarget};

/// Options whose values are paths.
const FILES: [&str; 4] = ["--token-file", "--ca-file", "--config", "--kafka-options"];
/// The longest `--site`, in bytes: each row of a batch may repeat it.
const TEXT_BYTES_MAX: usize = 1024;

pub(super) fn run(context: &Context, args: ShipArgs) -> Result<ExitCode> {
    let (print_unit, kafka) = (args.print_unit, target(&args)?);
    let options = options(args, kafka.as_ref())?;
    let interrupt = Interrupt::listen()?;
    let receiver: Box<dyn Receiver> = match (kafka, &context.place) {
        (Some(_), Place::Server(_)) => {
            return Err(Failure::usage(
                "ship sends to one place: name --server or --kafka",
            ));
        }
        (Some(target), _) => topic(target, &options, &interrupt)?,
        (None, Place::Server(client)) => Box::new(Server {
            client,
            options: &options,
        }),
        (None, _) => {
            return Err(Failure::usage(
                "ship sends to a server: name it with --server http://127.0.0.1:7070, or brokers of Kafka with --kafka",
            ));
        }
    };
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
    let (counts, outcome) = ship::run(&options, &*receiver, interrupt);
    println!("{counts}");
    outcome?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the topic that the arguments name.
fn target(args: &ShipArgs) -> Result<Option<KafkaTarget>> {
    let (Some(brokers), Some(topic)) = (&args.kafka, &args.topic) else {
        return Ok(None);
    };
    let options = match &args.kafka_options {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|e| Failure::usage(format!("--kafka-options: {}: {e}", path.display())))?,
        None => String::new(),
    };
    let shipper = args.site.clone().or_else(machine);
    let Some(shipper) = shipper.filter(|name| !name.is_empty()) else {
        return Err(Failure::usage(
            "this machine has no name; give the shipper one with --site",
        ));
    };
    Ok(Some(KafkaTarget {
        brokers: brokers.clone(),
        topic: topic.clone(),
        positions: match &args.positions {
            Some(positions) => positions.clone(),
            None => format!("{topic}.positions"),
        },
        shipper,
        options,
    }))
}

/// Returns the name of this machine.
fn machine() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned())
}

#[cfg(feature = "kafka")]
fn topic<'a>(
    target: KafkaTarget,
    options: &'a ShipOptions,
    interrupt: &Interrupt,
) -> Result<Box<dyn Receiver + 'a>> {
    let topic = ship::KafkaTopic::new(target, options, interrupt.clone())?;
    Ok(Box::new(topic))
}

#[cfg(not(feature = "kafka"))]
fn topic(_: KafkaTarget, _: &ShipOptions, _: &Interrupt) -> Result<Box<dyn Receiver>> {
    Err(Failure::usage(
        "--kafka: this program was built without Kafka; build it with `--features kafka`",
    ))
}

fn options(args: ShipArgs, kafka: Option<&KafkaTarget>) -> Result<ShipOptions> {
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
    let format = args.format.map(|format| format.parse()).transpose();
    let format = format.map_err(|e: ingest::Error| Failure::usage(e))?;
    // Without a format, the server takes the one that its configuration names.
    let named = format.as_ref().unwrap_or(&Format::Auto);
    let multiline = intake::multiline_option(args.multiline.as_deref(), None, named)?;
    let tz = args.tz.map(|tz| intake::zone(&tz).map(|_| tz));
    let targets = args.files.into_iter().map(ShipTarget::new);
    Ok(ShipOptions {
        targets: targets.collect::<Result<_, _>>().map_err(Failure::usage)?,
        stream: match kafka {
            Some(target) => target.topic.clone(),
            None => stream(args.stream.as_deref().unwrap_or_default())?,
        },
        format,
        multiline,
        site: match kafka {
            Some(target) => Some(target.shipper.clone()),
            None => args.site,
        },
        tz: tz.transpose()?,
        concern: concern(args.w.as_deref(), args.journal)?,
        from_end: args.from_end,
        once: args.once,
    })
}

fn stream(name: &str) -> Result<String> {
    let stream = Name::new(name).map_err(|e| Failure::usage(format!("--stream: {e}")))?;
    if stream.as_str().starts_with('_') {
        let why = "--stream: names that begin with _ are reserved";
        return Err(Failure::usage(why));
    }
    Ok(stream.to_string())
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

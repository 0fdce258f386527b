//! `logmill user` and `logmill token`.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use zeroize::{Zeroize, Zeroizing};

use super::Context;
use super::admin::Admin;
use crate::access::{Grant, Listed, NewUser, Role, TokenRequest, Verifier};
use crate::cli::{GrantArgs, Output, PasswordArgs, TokenCommand, UserCommand};
use crate::failure::{FAILED, Failure, Result, tell};

const PASSWORD: &str = "LOGMILL_PASSWORD";
/// Maximum bytes of a password: more is a wrong file.
const PASSWORD_BYTES_MAX: usize = 1 << 10;

/// Runs `logmill user`.
pub(super) fn user(context: &Context, command: &UserCommand) -> Result<ExitCode> {
    match command {
        UserCommand::Add {
            name,
            grant,
            password,
        } => {
            let grant = read_grant(grant)?;
            let verifier = Verifier::of(&read_password(password)?);
            change(context, |admin| {
                admin.add_user(name, NewUser { grant, verifier })
            })?;
            say(context, &format!("added the user {name}"));
        }
        UserCommand::List => return list(context, with(context, |admin| admin.users())?),
        UserCommand::Passwd { name, password } => {
            let verifier = Verifier::of(&read_password(password)?);
            change(context, |admin| admin.change_password(name, verifier))?;
            say(
                context,
                &format!("changed the password of {name}; its sessions have ended"),
            );
        }
        UserCommand::Remove { name } => {
            change(context, |admin| admin.remove_user(name))?;
            say(context, &format!("removed the user {name}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `logmill token`.
pub(super) fn token(context: &Context, command: &TokenCommand) -> Result<ExitCode> {
    match command {
        TokenCommand::Create {
            name,
            grant,
            expires,
        } => {
            let Grant { role, streams } = read_grant(grant)?;
            let seconds = expires.map(|time| u32::try_from(time.as_secs()));
            let request = TokenRequest {
                role,
                streams,
                expires_in_s: seconds.transpose().map_err(|_| {
                    Failure::usage("--expires: more than 136 years; leave it out for ever")
                })?,
            };
            let mut created = change(context, |admin| admin.create_token(name, &request))?;
            if is_json(context) {
                println!("{created}");
            } else {
                println!("{}", created["token"].as_str().unwrap_or_default());
                tell("keep the token now: it is not shown again, and the store has its hash only");
            }
            if let Some(Value::String(token)) = created.get_mut("token") {
                token.zeroize();
            }
        }
        TokenCommand::List => return list(context, with(context, |admin| admin.tokens())?),
        TokenCommand::Revoke { name } => {
            change(context, |admin| admin.revoke_token(name))?;
            say(context, &format!("revoked the token {name}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn with<T>(context: &Context, work: impl FnOnce(&dyn Admin) -> Result<T>) -> Result<T> {
    let admin = context.admin()?;
    let done = work(&*admin);
    admin.close()?;
    done
}

/// Makes a change, and warns of the state that it has led to.
fn change<T>(context: &Context, work: impl FnOnce(&dyn Admin) -> Result<T>) -> Result<T> {
    with(context, |admin| {
        let done = work(admin)?;
        warn(admin)?;
        Ok(done)
    })
}

fn read_grant(args: &GrantArgs) -> Result<Grant> {
    let streams = args.stream.clone().try_into();
    Ok(Grant {
        role: args.role,
        streams: streams.map_err(|e| Failure::usage(format!("--stream: {e}")))?,
    })
}

/// Reads a password from a file, the environment or the terminal: arguments of a process are
/// visible to every user of the machine.
fn read_password(args: &PasswordArgs) -> Result<SecretString> {
    let password = match &args.password_file {
        Some(file) => SecretString::from(first_line(file)?),
        None => match std::env::var(PASSWORD) {
            Ok(password) => SecretString::from(password),
            Err(_) if std::io::stdin().is_terminal() => {
                let ask = |prompt| rpassword::prompt_password(prompt).map(SecretString::from);
                let (first, again) = (ask("Password: ")?, ask("Again: ")?);
                if first.expose_secret() != again.expose_secret() {
                    return Err(Failure::usage("the two passwords differ"));
                }
                first
            }
            Err(_) => {
                return Err(Failure::usage(format!(
                    "give the password with --password-file FILE (- for standard input) or in {PASSWORD}"
                )));
            }
        },
    };
    if password.expose_secret().is_empty() {
        return Err(Failure::usage("the password is empty"));
    }
    Ok(password)
}

/// Reads the first line of a file that holds a secret; `-` is standard input.
pub(super) fn first_line(file: &Path) -> Result<String> {
    let named = |e: std::io::Error| Failure::new(FAILED, format!("{}: {e}", file.display()));
    let from = match file.to_str() {
        // The standard library's own reader would keep what it has read.
        Some("-") => std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map(File::from),
        _ => File::open(file),
    };
    let mut from = from.map_err(named)?;
    let mut bytes = Zeroizing::new([0; PASSWORD_BYTES_MAX]);
    let mut len = 0;
    let end = loop {
        if let Some(end) = bytes[..len].iter().position(|b| *b == b'\n') {
            break end;
        }
        match from.read(&mut bytes[len..]).map_err(named)? {
            0 => break len,
            read => len += read,
        }
    };
    if end == PASSWORD_BYTES_MAX {
        let name = file.display();
        return Err(Failure::usage(format!(
            "{name}: the first line has more than {PASSWORD_BYTES_MAX} bytes; give a file with the secret alone"
        )));
    }
    let line = str::from_utf8(&bytes[..end])
        .map_err(|_| named(std::io::Error::other("the first line is not UTF-8")))?;
    Ok(line.trim_end_matches('\r').to_owned())
}

fn list(context: &Context, accounts: Vec<Listed>) -> Result<ExitCode> {
    if is_json(context) {
        let text = serde_json::to_string(&accounts).map_err(anyhow::Error::from)?;
        println!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    for Listed {
        name,
        grant,
        created,
        expires,
    } in accounts
    {
        let streams = match grant.streams.patterns() {
            [] => "all streams".to_owned(),
            some => some.join(" "),
        };
        let expires = expires.map_or(String::new(), |at| format!(", expires {}", at.format("%F")));
        let (role, created) = (grant.role.as_str(), created.format("%F"));
        println!("{name}: {role}, {streams}, created {created}{expires}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Warns of the state that a change has led to: that nobody can administer the store over the
/// network, or that everyone can.
fn warn(admin: &dyn Admin) -> Result<()> {
    let accounts = [admin.users()?, admin.tokens()?].concat();
    if accounts.is_empty() {
        tell(
            "the store has no accounts any more: listeners on this machine's own addresses ask for no login",
        );
    } else if accounts
        .iter()
        .all(|account| account.grant.role != Role::Admin)
    {
        tell(
            "the store has no account with the role admin: only commands with --data, on this machine, can administer it",
        );
    }
    Ok(())
}

fn is_json(context: &Context) -> bool {
    matches!(context.output, Some(Output::Json | Output::Ndjson))
}

/// Prints a sentence for people; JSON output has none.
fn say(context: &Context, sentence: &str) {
    if !is_json(context) {
        println!("{sentence}");
    }
}

//! `logmill user` and `logmill token`.

use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;

use secrecy::SecretString;

use super::Context;
use super::admin::Admin;
use crate::access::{Grant, Listed, NewUser, Role, TokenRequest, Verifier};
use crate::cli::{GrantArgs, Output, PasswordArgs, TokenCommand, UserCommand};
use crate::failure::{FAILED, Failure, Result, tell};

const PASSWORD: &str = "LOGMILL_PASSWORD";
/// Maximum bytes of a password: more is a wrong file.
const PASSWORD_BYTES_MAX: u64 = 1 << 10;

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
            let created = change(context, |admin| admin.create_token(name, &request))?;
            if is_json(context) {
                println!("{created}");
            } else {
                println!("{}", created["token"].as_str().unwrap_or_default());
                tell("keep the token now: it is not shown again, and the store has its hash only");
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
        Some(file) => first_line(file)?,
        None => match std::env::var(PASSWORD) {
            Ok(password) => password,
            Err(_) if std::io::stdin().is_terminal() => {
                let first = rpassword::prompt_password("Password: ")?;
                if rpassword::prompt_password("Again: ")? != first {
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
    if password.is_empty() {
        return Err(Failure::usage("the password is empty"));
    }
    Ok(SecretString::from(password))
}

/// Reads the first line of a file that holds a secret; `-` is standard input.
pub(super) fn first_line(file: &Path) -> Result<String> {
    let named = |e: std::io::Error| Failure::new(FAILED, format!("{}: {e}", file.display()));
    let from: Box<dyn Read> = match file.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(file).map_err(named)?),
    };
    let mut line = String::new();
    let mut from = BufReader::new(from.take(PASSWORD_BYTES_MAX));
    from.read_line(&mut line).map_err(named)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
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

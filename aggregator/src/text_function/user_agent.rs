//! Programs behind user agents, by the database of the crate `woothee`.

use std::borrow::Cow;
use std::sync::LazyLock;

use woothee::parser::Parser;
use woothee::woothee::VALUE_UNKNOWN;

/// Bytes of an agent that are read: some agents are made as long as a server takes.
const LEN_MAX: usize = 1_024;

static PARSER: LazyLock<Parser> = LazyLock::new(Parser::new);

/// A part of the program that a user agent names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AgentPart {
    /// The browser or robot, such as `Firefox` or `Googlebot`.
    Family,
    /// Its version.
    Version,
    /// The operating system, such as `Windows 10` or `iPhone`.
    Os,
    /// Its version.
    OsVersion,
    /// The kind of program or machine; see the module of all functions.
    Category,
}

/// Returns a part of an agent; `None` if the database does not know it.
pub(super) fn part(agent: &str, part: AgentPart) -> Option<Cow<'_, str>> {
    let agent = &agent[..agent.floor_char_boundary(LEN_MAX)];
    let known = PARSER.parse(agent)?;
    let found: Cow<str> = match part {
        AgentPart::Family => known.name.into(),
        AgentPart::Version => known.version.into(),
        AgentPart::Os => known.os.into(),
        AgentPart::OsVersion => known.os_version,
        AgentPart::Category => known.category.into(),
    };
    Some(found).filter(|text| !text.is_empty() && text != VALUE_UNKNOWN)
}

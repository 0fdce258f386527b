//! The unit file by which systemd runs a shipper.

use std::fmt::Write;
use std::path::Path;

/// Returns a unit that runs `program` with `arguments`.
pub(crate) fn unit(program: &Path, arguments: &[String]) -> String {
    let mut command = quoted(&program.display().to_string());
    for argument in arguments {
        let _ignored = write!(command, " {}", quoted(argument));
    }
    format!(
        "[Unit]
Description=Logmill shipper: follows log files and sends their lines
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={command}
# A shipper has no state: it asks the server where to go on.
DynamicUser=yes
SupplementaryGroups=adm systemd-journal
Restart=always
RestartSec=5
# Wrong usage and bad configuration do not mend themselves.
RestartPreventExitStatus=2 78
LimitNOFILE=65536
MemoryMax=256M
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
CapabilityBoundingSet=

[Install]
WantedBy=multi-user.target
"
    )
}

/// Quotes a word of a command line (systemd.service(5), "Command lines", and systemd.unit(5),
/// "Specifiers").
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=,@+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let mut out = String::from('"');
    for c in word.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '%' | '$' => out.extend([c, c]),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_unit_are_quoted() {
        for (word, expected) in [
            ("/var/log/a.log", "/var/log/a.log"),
            ("/var/log/*.log", "\"/var/log/*.log\""),
            ("100%", "\"100%%\""),
            ("nginx:$host \"x\"", r#""nginx:$$host \"x\"""#),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(word), expected);
        }
        let unit = unit(
            Path::new("/usr/bin/logmill"),
            &["ship".into(), "a b".into()],
        );
        assert!(
            unit.contains("\nExecStart=/usr/bin/logmill ship \"a b\"\n"),
            "{unit}"
        );
    }
}

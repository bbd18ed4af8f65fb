//! Why a run ends, and the exit code that says so.

use std::fmt;
use std::process::ExitCode;

use ingero_format::one_line;

use crate::text::say;

/// Exit code of the recorder's own failure, as `env` and `timeout` have it.
pub const OWN_FAILURE: u8 = 125;
/// Exit code when the command was found and cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// Exit code when the command was not found.
pub const NOT_FOUND: u8 = 127;

/// A run that cannot go on: one line for the user and the exit code.
///
/// ```
/// use ingero_record::{Failure, OWN_FAILURE};
/// let failure = Failure::from(anyhow::anyhow!("disk is full"));
/// assert_eq!((failure.code(), failure.to_string().as_str()), (OWN_FAILURE, "disk is full"));
/// ```
#[derive(Debug)]
pub struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl Failure {
    /// A failure with a code of its own.
    pub fn new(code: u8, error: anyhow::Error) -> Self {
        Self { code, error }
    }

    /// A command line that makes no sense, by the parser's words for it: the first paragraph says what is wrong.
    #[must_use]
    pub fn usage(words: &str) -> Self {
        let problem = words.split("\n\n").next().unwrap_or_default();
        let problem = problem.split_whitespace().collect::<Vec<_>>().join(" ");
        let problem = problem.trim_start_matches("error: ");
        // The usual slip: `ingero-record -o run.igt python train.py`.
        let word = problem.strip_prefix("unexpected argument '").is_some_and(|word| !word.starts_with('-'));
        let hint = if word { "; put -- before the command" } else { "" };
        Self::from(anyhow::anyhow!("{problem}{hint}; see ingero-record --help"))
    }

    /// The exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(OWN_FAILURE, error)
    }
}

impl fmt::Display for Failure {
    /// The whole chain of causes on one line, without control characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Some errors quote their cause themselves.
        let mut text = String::new();
        for cause in self.error.chain().map(ToString::to_string) {
            if !text.contains(&cause) {
                text.push_str(if text.is_empty() { "" } else { ": " });
                text.push_str(&cause);
            }
        }
        f.write_str(&one_line(&text.replace('\n', "; ")))
    }
}

/// How a run that did its work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Recording was asked to stop, or only help was asked for.
    Stopped,
    /// The command ended; its wait status.
    Command(CommandEnd),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// It exited with this code.
    Code(u8),
    /// This signal killed it.
    Signal(u8),
}

impl CommandEnd {
    /// From the status word of `waitpid`.
    #[must_use]
    pub fn from_wait_status(status: i32) -> Self {
        let low = |n: i32| u8::try_from(n & 0xff).unwrap_or(u8::MAX);
        if libc::WIFSIGNALED(status) {
            Self::Signal(low(libc::WTERMSIG(status)))
        } else {
            Self::Code(low(libc::WEXITSTATUS(status)))
        }
    }

    /// The exit code that a shell would report.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128u8.saturating_add(signal),
        }
    }
}

/// Prints the reason of a failure and turns any end into the exit code: the only place that does.
pub fn conclude(result: Result<Outcome, Failure>) -> ExitCode {
    match result {
        Ok(Outcome::Stopped) => ExitCode::SUCCESS,
        Ok(Outcome::Command(end)) => ExitCode::from(end.exit_code()),
        Err(failure) => {
            say(&format!("ingero-record: {failure}\n"));
            ExitCode::from(failure.code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(CommandEnd::from_wait_status(0).exit_code(), 0);
        assert_eq!(CommandEnd::from_wait_status(7 << 8).exit_code(), 7);
        assert_eq!(CommandEnd::from_wait_status(9).exit_code(), 137);
        // core dumped
        assert_eq!(CommandEnd::from_wait_status(0x80 | 11).exit_code(), 139);
    }

    #[test]
    fn a_wrong_command_line_is_answered_in_one_line() {
        let failure = Failure::usage("error: unexpected argument '--x'\n  found\n\nUsage: y\n");
        assert_eq!(failure.to_string(), "unexpected argument '--x' found; see ingero-record --help");
        assert_eq!(failure.code(), OWN_FAILURE);
        let failure = Failure::usage("error: unexpected argument 'python' found\n\nUsage: y\n").to_string();
        assert!(failure.contains("found; put -- before the command; see"), "{failure}");
    }

    #[test]
    fn each_cause_is_said_once() {
        let error = anyhow::anyhow!("no such file").context("cannot read x: no such file; build y").context("z");
        assert_eq!(Failure::from(error).to_string(), "z: cannot read x: no such file; build y");
    }

    #[test]
    fn a_message_is_one_line_without_control_bytes() {
        let failure = Failure::from(anyhow::anyhow!("a\nb\x1b[31m"));
        assert_eq!(failure.to_string(), "a; b\\u{1b}[31m");
    }
}

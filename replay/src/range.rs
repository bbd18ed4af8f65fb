//! The options that cut a range out of a trace, the same ones in every program.

use clap::Args;
use ingero_format::Trace;

use crate::window::Window;

/// `--from`, `--to` and `--since` as they were typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Range {
    /// Begin here: an offset from the trace's start (12.5s, 300ms, 2m) or a wall-clock time
    /// (2026-03-01T14:06:13Z).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// End before this time.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Only the last part of the trace, so long (5m, 20s).
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, conflicts_with = "from")]
    pub since: Option<String>,
}

impl Range {
    /// Whether any of them was given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.since.is_some()
    }

    /// The range on the trace's clock.
    ///
    /// # Errors
    /// A sentence for the person.
    pub fn window(&self, trace: &Trace) -> Result<Window, String> {
        Window::parse(trace, self.from.as_deref(), self.to.as_deref(), self.since.as_deref())
    }
}

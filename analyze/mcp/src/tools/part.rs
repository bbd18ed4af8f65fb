//! Which recording, and which part of it: what most tools are asked with.

use std::sync::Arc;

use ingero_replay::Window;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::figures::{Figures, Range};
use crate::problem::Problem;
use crate::recording::{Opened, Recording};
use crate::shelf::Shelf;

/// A recording and a range, as they are given.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct Part {
    /// Recording, by the name that get_capture_health lists. Needed where there are several.
    recording: Option<String>,
    /// Begin of the range: an offset from the recording's start (12.5s, 300ms) or a wall-clock time
    /// (2026-03-01T14:06:13Z).
    pub(super) from: Option<String>,
    /// End of the range.
    to: Option<String>,
    /// In place of from: only the last stretch of the recording, so long (20s).
    since: Option<String>,
}

/// A recording that was opened, and a range of it.
pub(super) struct Extract {
    pub(super) recording: Arc<Recording>,
    pub(super) opened: Arc<Opened>,
    pub(super) window: Window,
}

impl Part {
    pub(super) fn open(&self, shelf: &Shelf) -> Result<Extract, Problem> {
        let recording = shelf.recording(self.recording.as_deref())?;
        let opened = recording.open()?;
        let window = opened.window(self.from.as_deref(), self.to.as_deref(), self.since.as_deref())?;
        Ok(Extract { recording, opened, window })
    }
}

impl Extract {
    pub(super) fn name(&self) -> &str {
        self.recording.name()
    }

    /// The analysis of the range.
    pub(super) fn figures(&self) -> Result<Arc<Figures>, Problem> {
        self.opened.figures(self.window)
    }

    /// The range, from the recording's start.
    pub(super) fn range(&self) -> Range {
        let from_ns = self.window.from_ns - self.window.trace_start_ns;
        Range { from_ns, to_ns: from_ns + self.window.len_ns() }
    }
}

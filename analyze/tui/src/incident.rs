//! What is worth jumping to.

use ingero_format::catalog::TaskId;
use ingero_replay::Lost;

/// A place where something is to be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What is to be seen there.
    pub what: String,
    /// The thread.
    pub task: TaskId,
    /// From when on.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
}

/// One cause of lost time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// HIGH, MEDIUM or LOW.
    pub severity: &'static str,
    /// One line that a person can repeat.
    pub summary: String,
    /// Where to look, the best place first.
    pub places: Vec<Place>,
}

/// What an analysis finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The incidents, worst first.
    pub incidents: Vec<Incident>,
    /// Whether events were lost, or parts of the recording could not be read.
    pub lossy: bool,
    /// What is missing, now that everything was read.
    pub lost: Vec<Lost>,
}

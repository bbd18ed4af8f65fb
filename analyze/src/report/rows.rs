//! Rows of the JSON contract that whoever reads it takes as they are: the assistant's tools answer with them, and describe them with
//! these words (feature `schema`). What a source cannot know is none.

use serde::Serialize;

/// A range, in nanoseconds from the recording's start.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Range {
    /// First instant.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
}

/// Closed stays off the CPUs, of all threads of a process.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(serde::Deserialize, schemars::JsonSchema))]
pub struct OffCpu {
    /// How many.
    pub count: Option<u64>,
    /// How long in all, added up over the threads.
    pub sum_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Of the sum: a thread could have run and had no CPU.
    pub runnable_ns: Option<u64>,
    /// Of that: another CPU was idle that it was not allowed to use.
    pub squeezed_ns: Option<u64>,
    /// Held back by a CPU quota.
    pub throttled_ns: Option<u64>,
    /// Waited for something else.
    pub blocked_ns: Option<u64>,
    /// Stays that began before the range or run past its end: at least so long.
    pub unfinished_ns: Option<u64>,
    /// Stays whose end the kernel did not report: it was made up from the wakeup.
    pub synthesised: Option<u64>,
}

/// Who held a CPU.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Behind {
    /// Process.
    pub pid: u32,
    /// Name: data from the recording.
    pub name: String,
    /// For how long.
    pub ns: u64,
}

/// Pages of memory.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(serde::Deserialize, schemars::JsonSchema))]
pub struct PageAllocs {
    /// Allocations.
    pub count: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
}

/// Calls of one function by one process. Percentiles are exact (nearest rank).
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Op {
    /// runtime, driver, graph or nccl. A runtime call contains the driver call that it makes.
    pub layer: String,
    /// Function.
    pub name: String,
    /// Calls that returned.
    pub count: Option<u64>,
    /// Calls that never returned.
    pub unreturned: Option<u64>,
    /// Returns of calls that were entered before the recording began; they count with neither.
    pub began_before: Option<u64>,
    /// Calls with a result other than 0.
    pub errors: Option<u64>,
    /// Bytes asked for or copied.
    pub bytes: Option<u64>,
    /// Time in all.
    pub sum_ns: Option<u64>,
    /// Time outside of calls within them.
    pub self_ns: Option<u64>,
    /// Mean.
    pub mean_ns: Option<u64>,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 95th percentile.
    pub p95_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Of the time: the thread ran.
    pub running_ns: Option<u64>,
    /// Could have run and had no CPU.
    pub runnable_ns: Option<u64>,
    /// Was held back by a CPU quota.
    pub throttled_ns: Option<u64>,
    /// Was blocked.
    pub blocked_ns: Option<u64>,
}

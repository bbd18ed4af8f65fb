//! Pageable copies: large copies between host and device run far below the link.
//!
//! Lost time: what large copies take beyond what the same bytes take at 20 GB/s, where their own call moved them at less
//! than 6 GB/s (synchronous, of 256 KiB and more) or at less than 20 GB/s (asynchronous, of 1 MiB and more). A link of 16
//! lanes of PCIe 4 moves about 25 GB/s from pinned memory; from pageable memory the driver copies to a buffer first, on
//! the calling thread, at 3 to 12 GB/s. Each copy is judged by itself, for a program may copy from both. What its
//! thread could have run and had no CPU within it is taken off, and what takes a call longer than its bytes at 1.5 GB/s is a
//! wait for the device and counts for nothing. Must not fire for copies that return at once, for small ones, or for those to
//! the host that wait for results.

use ingero_format::catalog::Kind;

use super::case::Case;
use super::{Incident, Layer, seconds};

pub(super) fn find(case: &Case) -> Option<Incident> {
    let copies = &case.phase.copies;
    let (lost_ns, fed_ns) = case.copies_lost_ns();
    let mut incident = case.incident("pageable-copies", "copies from pageable memory", lost_ns)?;
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = copies.bytes as f64 / copies.ns.max(1) as f64;
    incident.op = copies.op();
    incident.summary = format!(
        "{} lost {} in {} large copies that ran at {rate:.2} GB/s, far below what the link can do",
        case.label(),
        incident.lost(),
        case.counted(Kind::Call, copies.count)
    );
    incident.root_cause = format!(
        "{} were copied in {} on the calling thread: the host memory is not pinned, or the copies wait for the device",
        crate::report::bytes(copies.bytes),
        seconds(copies.ns)
    );
    incident.counts_as_fed(fed_ns, "a copy is a submission, however slow it is");
    incident.recommendations =
        vec!["pin the host memory (pin_memory=True, cudaHostAlloc) and copy asynchronously (non_blocking=True)".into()];
    if let Some(longest) = copies.longest {
        case.show_stretch(&mut incident, Layer::Runtime, "copied", longest);
    }
    Some(incident)
}

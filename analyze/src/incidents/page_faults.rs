//! Page faults: threads that a gap waited for, the submitting one first, spend their time on pages that are new.
//!
//! Lost time: what the submitters, or the workers, ran in the chains, where the pages that their processes were handed
//! out account for a third of their running time, at 1.2 us a page. Fresh memory for every batch does that: it is
//! mapped, made zero page by page, and given back. Must not fire for a process that computes in memory that it has.

use ingero_format::catalog::Kind;

use super::case::{Case, Group};
use super::{Incident, Layer, seconds};
use crate::chain::Part;
use crate::shares::Share;

pub(super) fn find(case: &Case) -> Option<Incident> {
    if case.in_pieces() {
        return None;
    }
    let own = [case.phase.phase.process];
    let workers: Vec<_> = case.processes_of(Group::Worker).into_iter().map(|(id, _)| id).collect();
    let of_main = if case.is_faulting(&own) { case.own_work().left_ns } else { 0 };
    let of_workers = if case.is_faulting(&workers) { case.workers_work_ns() } else { 0 };
    let lost_ns = of_main.saturating_add(of_workers);
    let mut incident = case.incident("page-faults", "page faults", lost_ns)?;
    let who = if of_main >= of_workers { &own[..] } else { &workers[..] };
    let Share { page_allocs: pages, on_cpu_ns: ran, .. } = case.share_of(who);
    let whose = if of_main >= of_workers { "its main process" } else { "its workers" };
    incident.summary = format!(
        "{} lost {} to page faults: {whose} took {} new pages while on a CPU for {}",
        case.label(),
        incident.lost(),
        case.counted(Kind::PageAlloc, pages),
        seconds(ran)
    );
    incident.root_cause =
        "memory is mapped anew for each batch, and every page of it is faulted in and made zero".into();
    incident.recommendations = vec![
        "keep and reuse buffers instead of allocating them for each batch".into(),
        "let the allocator keep what is freed (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_, jemalloc), or use huge pages".into(),
    ];
    let part = |group, link: &crate::Link| match group {
        Group::Submitter if of_main > 0 => link.ran,
        Group::Worker if of_workers > 0 => link.ran,
        _ => Part::default(),
    };
    case.show(&mut incident, Layer::Host, "ran, much of it for new pages,", part);
    case.show_longest_gap(&mut incident);
    Some(incident)
}

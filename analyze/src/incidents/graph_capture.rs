//! Graphs made again and again: capture, instantiation or update in the loop.
//!
//! Lost time: what those calls run in gaps, and what they wait there for nobody who is told. A graph pays when it is made once and launched often; must not fire where
//! there are fewer than one such call for four submissions.

use ingero_format::catalog::Kind;

use super::case::Case;
use super::{Incident, Layer};

/// So many submissions for each such call at most. Making a graph takes a begin, an end and an instantiation: three calls for the
/// one launch of it where it is made for each step, which has copies and launches beside. A graph that is launched ten times
/// and more has less than a third of a call for each.
const SUBMISSIONS: u64 = 4;

/// Whether graphs are made so often.
pub(super) fn fires(case: &Case) -> bool {
    let graphs = &case.phase.graphs;
    graphs.count > 0 && graphs.count.saturating_mul(SUBMISSIONS) >= case.phase.phase.submissions
}

pub(super) fn find(case: &Case) -> Option<Incident> {
    if !fires(case) {
        return None;
    }
    let graphs = &case.phase.graphs;
    let lost_ns = case.graphs_lost_ns();
    let mut incident = case.incident("graph-capture", "making CUDA graphs again and again", lost_ns)?;
    incident.op = graphs.op();
    incident.summary = format!(
        "{} lost {} making CUDA graphs in its loop: {} calls for {} submissions",
        case.label(),
        incident.lost(),
        case.counted(Kind::Call, graphs.count),
        case.counted(Kind::Call, case.phase.phase.submissions)
    );
    incident.root_cause = "a graph is captured or instantiated for each step instead of once".into();
    incident.recommendations = vec![
        "keep shapes fixed, so that a graph can be used again (pad batches, mark dimensions as dynamic)".into(),
        "capture once before the loop and launch the graph in it".into(),
    ];
    if let Some(longest) = graphs.longest {
        case.show_stretch(&mut incident, Layer::Runtime, "made a graph", longest);
    }
    case.show_longest_gap(&mut incident);
    Some(incident)
}

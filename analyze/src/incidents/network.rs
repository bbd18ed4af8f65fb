//! Network: a gap ends with a socket.
//!
//! Lost time: what the chains' threads spent in waits on sockets, or in poll and its kin, that a packet ended; **TCP
//! retransmits** where its host had to send segments again in the phase. Must not
//! fire for pipes and sockets between processes of the host: there a thread ends the wait, and the chain goes on.

use ingero_format::catalog::Kind;

use super::case::Case;
use super::{Incident, Layer};
use crate::chain::Ending;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let lost_ns = case.all(|s| s.ended_ns(Ending::Network));
    let mut incident = case.incident("network", "waiting for the network", lost_ns)?;
    incident.summary = format!("{} lost {} waiting for the network", case.label(), incident.lost());
    let phase = &case.phase.phase;
    let again = case.analysis.signs.retransmits.iter().filter(|r| (phase.start_ns..phase.end_ns).contains(&r.at_ns));
    let again: Vec<_> = again.filter(|r| case.analysis.concerns(r.host, phase.process)).collect();
    if let Some(first) = again.first() {
        incident.kind = "tcp-retransmits";
        incident.cause = "the network, which lost packets";
        let peer = crate::printable(case.analysis.trace.string(first.peer));
        incident.summary = format!(
            "{} lost {} waiting for the network, on which {} segments had to be sent again, the first to {peer}",
            case.label(),
            incident.lost(),
            case.counted(Kind::Retransmit, again.len() as u64)
        );
        incident.root_cause = "packets are lost on the way, and each loss holds up what is behind it".into();
        incident.recommendations = vec![
            "look for the loss: ip -s link, ethtool -S, switches, a firewall or shaper between".into(),
            "use several connections to the storage, so that one loss does not hold up all".into(),
        ];
        case.show(&mut incident, Layer::System, "waited for the network", |_, link| link.ended(Ending::Network));
        return Some(incident);
    }
    incident.root_cause = "what is submitted next came, or waited for something that came, from another host".into();
    incident.recommendations = vec![
        "read ahead from remote storage, in more and larger requests at once".into(),
        "keep the data set on this host".into(),
    ];
    case.show(&mut incident, Layer::System, "waited for the network", |_, link| link.ended(Ending::Network));
    case.show_longest_gap(&mut incident);
    Some(incident)
}

//! Peers on the same host: who sent what a thread was woken by, where the kernel handed it over in a softirq.
//!
//! What is sent over loopback is delivered by the network's softirq, on the sender's CPU and on top of the sender, before
//! its system call returns. What comes from another host is delivered on top of whoever happens to be there. The two look
//! alike in one wake; so a sender is believed only where something else shows that the two processes talk:
//!
//! - both were followed, and one has used a socket whose ports are those of a socket of the other, the other way round;
//! - or the sender is a stranger, of whose sockets nothing is recorded, and was itself woken by this process in the same
//!   way before: a request, and then an answer.

use std::collections::{HashMap, HashSet};

use ingero_format::catalog::{SocketIo, TaskId, Waking};
use ingero_replay::{OffCpu, ProcessId, Processes, Waker};

use crate::chain::{NET_RX, SOFTIRQ};

const INET: [u64; 2] = [2, 10];

/// Own port and the other side's.
type Ports = (u64, u64);

/// Sockets that are remembered of a process at most.
const SOCKETS: usize = 1 << 12;

/// What is known of them at a moment of the walk.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    sockets: HashMap<ProcessId, HashSet<Ports>>,
    /// On top of which process another was woken.
    woken: HashSet<(ProcessId, ProcessId)>,
    /// Pairs that are known to talk, sender first.
    talking: HashSet<(ProcessId, ProcessId)>,
    /// The sender of each thread's latest wake, and when that was.
    latest: HashMap<TaskId, (u64, TaskId)>,
}

impl Peers {
    pub(crate) fn used(&mut self, e: &SocketIo, processes: &Processes) {
        if let (true, Some(own), Some(peer)) = (INET.contains(&e.family), e.local_port, e.peer_port) {
            let sockets = self.sockets.entry(processes.of(e.task)).or_default();
            if sockets.len() < SOCKETS {
                sockets.insert((own, peer));
            }
        }
    }

    pub(crate) fn wakes(&mut self, at_ns: u64, e: &Waking, processes: &Processes) {
        if e.context != Some(SOFTIRQ) || e.irq != Some(NET_RX) || e.waker == TaskId(0) || e.waker == e.wakee {
            return;
        }
        let (sender, receiver) = (processes.of(e.waker), processes.of(e.wakee));
        if self.talking.contains(&(sender, receiver)) || self.talk(sender, receiver, processes) {
            self.talking.insert((sender, receiver));
            self.latest.insert(e.wakee, (at_ns, e.waker));
        }
        self.woken.insert((sender, receiver));
    }

    fn talk(&self, sender: ProcessId, receiver: ProcessId, processes: &Processes) -> bool {
        let (ours, theirs) = (self.sockets.get(&receiver), self.sockets.get(&sender));
        if processes.get(sender).followed || theirs.is_some() {
            let (Some(ours), Some(theirs)) = (ours, theirs) else { return false };
            return ours.iter().any(|&(own, peer)| theirs.contains(&(peer, own)));
        }
        sender != receiver && self.woken.contains(&(receiver, sender))
    }

    /// A stay with its waker, if that was a peer.
    #[inline]
    pub(crate) fn resolve(&self, stay: &OffCpu) -> Option<OffCpu> {
        let Waker::Interrupt { context: SOFTIRQ, .. } = stay.waker else { return None };
        let (at_ns, by) = *self.latest.get(&stay.task)?;
        (stay.runnable_ns == Some(at_ns)).then_some(OffCpu { waker: Waker::Task(by), ..*stay })
    }
}

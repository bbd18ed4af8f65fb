//! Connections that have not said yet what they want.
//!
//! There is room for so many connections and no more. A client that keeps its request back, or does not take its answer, must
//! not hold up those that would be served at once: where the room is full, whoever has waited longest has to leave.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Those who wait, by when they began to.
#[derive(Debug, Default)]
pub(crate) struct Lobby {
    waiting: Mutex<Waiting>,
    /// Somebody has begun to wait.
    begun: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Grows with each wait.
    next: u64,
    guests: BTreeMap<u64, Arc<Notify>>,
}

impl Lobby {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks whoever has waited longest to leave; says whether there was anybody.
    pub(crate) fn show_out(&self) -> bool {
        let longest = self.lock().guests.pop_first();
        longest.inspect(|(_, leave)| leave.notify_one()).is_some()
    }

    /// Until somebody begins to wait, or has begun since this was last asked.
    pub(crate) async fn somebody_waits(&self) {
        self.begun.notified().await;
    }
}

/// A connection, from when it is accepted until it is closed.
#[derive(Debug)]
pub(crate) struct Guest {
    lobby: Arc<Lobby>,
    leave: Arc<Notify>,
    /// Its place among those who wait; none while it is being answered.
    place: Mutex<Option<u64>>,
    /// Its answer is made and may still have to be written.
    answered: AtomicBool,
}

impl Guest {
    /// One that waits.
    pub(crate) fn new(lobby: Arc<Lobby>) -> Self {
        let guest = Self { lobby, leave: Arc::default(), place: Mutex::default(), answered: AtomicBool::new(false) };
        guest.waits();
        guest
    }

    /// It waits from now on: nothing of it is being done.
    pub(crate) fn waits(&self) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting = self.lobby.lock();
        let next = waiting.next;
        waiting.next += 1;
        waiting.guests.insert(next, self.leave.clone());
        if let Some(before) = place.replace(next) {
            waiting.guests.remove(&before);
        }
        drop(waiting);
        self.lobby.begun.notify_one();
    }

    /// Its answer is made: it is to be written before it waits again.
    pub(crate) fn is_answered(&self) {
        self.answered.store(true, Ordering::Release);
    }

    /// Everything is written that there was: it waits, if that was an answer.
    pub(crate) fn has_all(&self) {
        if self.answered.swap(false, Ordering::AcqRel) {
            self.waits();
        }
    }

    /// Its request is there and is being answered: it is not asked to leave.
    pub(crate) fn is_served(&self) {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(place) = place {
            self.lobby.lock().guests.remove(&place);
        }
    }

    /// Until it is asked to leave.
    pub(crate) async fn asked_to_leave(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.is_served();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waited_longest_leaves_and_nobody_who_is_served() {
        let lobby = Arc::new(Lobby::default());
        let [a, b, c] = [(); 3].map(|()| Guest::new(lobby.clone()));
        let order = || -> Vec<u64> { lobby.lock().guests.keys().copied().collect() };
        assert_eq!(order(), [0, 1, 2]);
        b.is_served();
        // An answered one begins to wait anew.
        a.is_served();
        a.waits();
        assert_eq!(order(), [2, 3]);
        assert!(lobby.show_out());
        assert_eq!(order(), [3], "c was asked, a is left");
        drop((a, c));
        assert!(!lobby.show_out(), "b is being served");
    }
}

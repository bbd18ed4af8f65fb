//! Reading ahead: one CPU decodes and orders the events while another makes a timeline of them.

use std::sync::mpsc::{channel, sync_channel};

use ingero_format::catalog::Kind;
use ingero_format::{ChunkHeader, Trace};

use crate::event::Event;
use crate::merge::{LostBlock, Merge};

/// Events that are handed over at once: with their words of the order of 100 KB, which a CPU's cache holds.
const EVENTS: usize = 1 << 10;
/// Hand-overs that wait at most.
const WAITING: usize = 16;
/// Traces with fewer events are read before a thread is worth starting.
const APART_FROM: u64 = 500_000;

/// What is told of a trace.
pub(super) enum Told<'a> {
    /// The next event.
    Event(&'a Event),
    /// A block that cannot be read, before any event that is later than its first.
    Lost(&'a ChunkHeader),
}

/// Events that are handed over: as words, a fraction of what an event of any kind takes.
#[derive(Default)]
struct Load {
    kinds: Vec<(Kind, u32)>,
    words: Vec<u64>,
    /// Blocks that cannot be read, each with the number of events before it.
    lost: Vec<(usize, ChunkHeader)>,
}

impl Load {
    /// Takes the next events on, as many as are handed over at once, with the blocks from the `missed`th on that could not be
    /// read on the way.
    fn fill(&mut self, merge: &mut Merge, missed: &mut usize) {
        while self.kinds.len() < EVENTS
            && let Some((kind, words)) = merge.next_words()
        {
            self.words.extend_from_slice(words);
            // So many words fit whatever the kinds.
            self.kinds.push((kind, u32::try_from(self.words.len()).unwrap_or(u32::MAX)));
            if merge.lost().len() > *missed {
                let before = self.kinds.len() - 1;
                self.lost.extend(merge.lost().iter().skip(*missed).map(|lost| (before, lost.entry.header)));
                *missed = merge.lost().len();
            }
        }
    }

    /// Tells the events and forgets them; the room stays.
    fn unload(&mut self, tell: &mut impl FnMut(Told)) {
        let mut start = 0;
        let mut event = Event::of(Kind::Exit, &[]);
        let mut lost = self.lost.drain(..).peekable();
        for (at, (kind, end)) in self.kinds.drain(..).enumerate() {
            while let Some((_, header)) = lost.next_if(|(before, _)| *before <= at) {
                tell(Told::Lost(&header));
            }
            let end = end as usize;
            event.set(kind, self.words.get(start..end).unwrap_or_default());
            tell(Told::Event(&event));
            start = end;
        }
        drop(lost);
        self.words.clear();
    }
}

/// Whether reading a trace on a CPU of its own is worth it, and there is one.
fn is_worth_it(trace: &Trace) -> bool {
    let rows = trace.blocks().iter().fold(0, |rows: u64, b| rows.saturating_add(u64::from(b.header.rows)));
    rows >= APART_FROM && std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1)
}

/// Tells all events of a trace in time order, and returns the blocks that could not be read. Whether they were read
/// ahead makes no difference to what is told.
pub(super) fn events(trace: &Trace, mut tell: impl FnMut(Told)) -> Vec<LostBlock> {
    if is_worth_it(trace)
        && let Ok(lost) = apart(trace, &mut tell)
    {
        return lost;
    }
    let mut merge = Merge::new(trace);
    let mut event = Event::of(Kind::Exit, &[]);
    let mut missed = 0;
    while let Some((kind, words)) = merge.next_words() {
        event.set(kind, words);
        merge.lost().iter().skip(missed).for_each(|lost| tell(Told::Lost(&lost.entry.header)));
        missed = merge.lost().len();
        tell(Told::Event(&event));
    }
    merge.lost().iter().skip(missed).for_each(|lost| tell(Told::Lost(&lost.entry.header)));
    merge.into_lost()
}

/// The same with a thread that reads ahead. Fails where none can be started, before anything is told.
fn apart(trace: &Trace, tell: &mut impl FnMut(Told)) -> std::io::Result<Vec<LostBlock>> {
    std::thread::scope(|scope| {
        let (full, ready) = sync_channel::<Load>(WAITING);
        let (empty, spare) = channel::<Load>();
        let read = move || {
            let mut merge = Merge::new(trace);
            let mut missed = 0;
            loop {
                let mut load = spare.try_recv().unwrap_or_default();
                load.fill(&mut merge, &mut missed);
                if load.kinds.is_empty() || full.send(load).is_err() {
                    return (merge.into_lost(), missed);
                }
            }
        };
        let reader = std::thread::Builder::new().name("reader".to_owned()).spawn_scoped(scope, read)?;
        for mut load in ready {
            load.unload(tell);
            // The reader may be done already.
            let _ = empty.send(load);
        }
        let (lost, told) = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // Those behind the last event.
        lost.iter().skip(told).for_each(|lost| tell(Told::Lost(&lost.entry.header)));
        Ok(lost)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;
    use ingero_format::catalog::TaskId;

    #[test]
    fn what_is_read_ahead_is_what_is_read() {
        let mut f = Fixture::with_rows(700);
        let (a, b) = (f.task(1, 1), f.task(2, 2));
        for i in 0..10_000u64 {
            f.switch(i * 37 % 9_973, (i % 3) as u32, if i % 2 == 0 { a } else { TaskId(0) }, i % 2, b);
        }
        let trace = f.finish();
        let mut ahead = Vec::new();
        assert!(
            apart(&trace, &mut |told: Told| {
                if let Told::Event(e) = told {
                    ahead.push(*e);
                }
            })
            .unwrap()
            .is_empty()
        );
        let here: Vec<Event> = Merge::new(&trace).collect();
        assert_eq!(here.len(), 10_000);
        assert!(ahead == here);
    }
}

//! The threads of a running recording.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use anyhow::anyhow;

use crate::drain::{self, Packet, Signals, all_go_at_once, queue_batches};
use crate::finding::Finding;
use crate::gpu::Gpus;
use crate::hold;
use crate::keeper::Keeper;
use crate::kernel::{Drain, Error, Hold, Kernel};
use crate::library::discovery::{Discovery, Requests, lock};
use crate::marks::{Leftover, MarkFile};
use crate::meta;
use crate::plan::{Plan, Target};
use crate::proc::clock::monotonic_ns;
use crate::proc::process::list_ids;
use crate::proc::system::read_system;
use crate::sampler::Sampler;
use crate::scribe::Scribe;
use crate::store::Store;
use crate::writer::{self, Written};

type LastWords = Arc<Mutex<Vec<(String, String)>>>;

/// The threads of a running recording.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(crate) signals: Arc<Signals>,
    kernel: Arc<Mutex<Kernel>>,
    requests: Arc<Requests>,
    last_words: LastWords,
    drain: JoinHandle<Result<(), Error>>,
    writer: JoinHandle<anyhow::Result<Written>>,
    discovery: JoinHandle<()>,
    hold: Option<JoinHandle<u64>>,
    hold_stopped: Arc<AtomicBool>,
    found: Arc<Mutex<Discovery>>,
    looks_stopped: Arc<AtomicBool>,
    sampler: JoinHandle<()>,
    marks: Option<JoinHandle<MarkFile>>,
}

/// What runs beside the drain and the writer.
pub(crate) struct Beside {
    pub(crate) hold: Option<Hold>,
    pub(crate) gpus: Option<Gpus>,
    pub(crate) marks: Option<MarkFile>,
}

impl Threads {
    pub(crate) fn start(
        drain: Drain,
        kernel: Arc<Mutex<Kernel>>,
        scribe: Scribe<Store>,
        keeper: Keeper,
        discovery: Discovery,
        beside: Beside,
        plan: &Plan,
    ) -> anyhow::Result<Self> {
        let signals = Arc::new(Signals::default());
        let requests = scribe.requests();
        let last_words = LastWords::default();
        let batches = queue_batches(read_system().mem_available_bytes.unwrap_or(0));
        let (to_writer, packets) = sync_channel(batches);
        let (to_spare, spare) = sync_channel(batches);
        let all = plan.target == Target::All;
        if all {
            for pid in list_ids("/proc") {
                requests.look_at(pid);
            }
        }
        let named = |name: &str| Builder::new().name(format!("ingero-{name}"));

        // What is found goes the way of the records, as far as it is wanted.
        let (way, selection) = (to_writer.clone(), plan.selection.clone());
        let hand_over = move |mut found: Vec<Finding>| {
            found.retain(|finding| selection.has(finding.what.kind()));
            found.is_empty() || way.send(Packet::Findings(found)).is_ok()
        };
        let (shared, its_kernel) = (Arc::clone(&signals), Arc::clone(&kernel));
        let drain = named("drain").spawn(move || {
            let result = drain::run(drain, &its_kernel, &to_writer, &spare, &shared);
            if result.is_err() {
                shared.failed.store(true, Ordering::Release);
            }
            result
        })?;
        let (shared, words) = (Arc::clone(&signals), Arc::clone(&last_words));
        let writer = named("writer").spawn(move || {
            let last_words = || std::mem::take(&mut *lock(&words));
            writer::run(scribe, keeper, packets, &to_spare, &shared, last_words)
        })?;
        let found = Arc::new(Mutex::new(discovery));
        let (asked, shared) = (Arc::clone(&requests), Arc::clone(&found));
        let discovery = named("discover").spawn({
            let hand_over = hand_over.clone();
            move || {
                Discovery::run(&shared, &asked, all, |found| {
                    // A writer that is gone has said why.
                    hand_over(found);
                });
            }
        })?;
        let looks_stopped = Arc::<AtomicBool>::default();
        let (its_kernel, stopped, take) = (Arc::clone(&kernel), Arc::clone(&looks_stopped), hand_over.clone());
        let sampler = named("sample").spawn(move || Sampler::new(its_kernel, all, beside.gpus).run(&stopped, take))?;
        let stopped = Arc::clone(&looks_stopped);
        let follow = |mut marks: MarkFile| {
            named("marks").spawn(move || {
                marks.follow(&stopped, hand_over);
                marks
            })
        };
        let marks = beside.marks.map(follow).transpose()?;
        let hold_stopped = Arc::<AtomicBool>::default();
        let start_hold = |hold: Hold| {
            let (shared, stopped) = (Arc::clone(&found), Arc::clone(&hold_stopped));
            named("hold").spawn(move || hold::run(hold, &shared, &stopped))
        };
        let hold = beside.hold.map(start_hold).transpose()?;
        Ok(Self {
            signals,
            kernel,
            requests,
            last_words,
            drain,
            writer,
            discovery,
            hold,
            hold_stopped,
            found,
            looks_stopped,
            sampler,
            marks,
        })
    }

    /// Stops the sources, drains what is left, and finishes the file.
    pub(crate) fn stop(self) -> anyhow::Result<(Written, Discovery, Leftover)> {
        let stop_ns = monotonic_ns();
        all_go_at_once();
        lock(&self.kernel).stop();
        self.requests.stop();
        let crashed = |what: &str| anyhow!("the {what} thread crashed; please report this");
        self.hold_stopped.store(true, Ordering::Release);
        self.looks_stopped.store(true, Ordering::Release);
        self.discovery.join().map_err(|_| crashed("discovery"))?;
        self.sampler.join().map_err(|_| crashed("sampler"))?;
        let marks = self.marks.map(JoinHandle::join).transpose().map_err(|_| crashed("marks"))?;
        let held = self.hold.map(JoinHandle::join).transpose().map_err(|_| crashed("hold"))?;
        let discovery = Arc::into_inner(self.found).ok_or_else(|| crashed("discovery"))?;
        let discovery = discovery.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut words = meta::libraries(&discovery);
        words.push(("drain_stalls".to_owned(), self.signals.stalls.load(Ordering::Relaxed).to_string()));
        words.push(("pressures".to_owned(), self.signals.pressures.load(Ordering::Relaxed).to_string()));
        if let Some(held) = held {
            words.push(("held_programs".to_owned(), held.to_string()));
        }
        *lock(&self.last_words) = words;
        // Where a limit was reached, the recording ended then.
        let _ = self.signals.stop_ns.compare_exchange(0, stop_ns, Ordering::AcqRel, Ordering::Acquire);
        let drained = self.drain.join().map_err(|_| crashed("drain"))?;
        let mut written = self.writer.join().map_err(|_| crashed("writer"))??;
        if let Err(e) = drained {
            written.problem.get_or_insert_with(|| anyhow!("draining: {e}"));
        }
        Ok((written, discovery, Leftover(marks)))
    }
}

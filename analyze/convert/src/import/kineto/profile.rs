//! What a profile holds, in rows that can be put in order.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use serde_json::value::RawValue;

use super::document::{Event, Head, Problem, parse_us};

/// A text of the profile, by its number.
pub(super) type TextId = u32;

/// A thread of the profile: process and thread id.
pub(super) type ThreadId = (u32, u32);

/// A stretch of a thread's work.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpanRow {
    pub(super) ts_ns: u64,
    pub(super) dur_ns: u64,
    pub(super) thread: ThreadId,
    pub(super) name: TextId,
    pub(super) category: TextId,
    pub(super) external_id: Option<u64>,
}

/// A call of the runtime or the driver.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallRow {
    pub(super) ts_ns: u64,
    pub(super) dur_ns: u64,
    pub(super) thread: ThreadId,
    pub(super) name: TextId,
    pub(super) category: TextId,
    pub(super) is_driver: bool,
    pub(super) correlation: Option<u64>,
    pub(super) external_id: Option<u64>,
}

/// Work of a GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceRow {
    pub(super) ts_ns: u64,
    pub(super) dur_ns: u64,
    pub(super) device: u64,
    pub(super) stream: Option<u64>,
    /// Number of `ACTIVITIES`.
    pub(super) activity: u64,
    pub(super) name: TextId,
    pub(super) correlation: Option<u64>,
    pub(super) bytes: Option<u64>,
}

/// A whole profile. Rows take at most 72 bytes each, and every text is held once.
#[derive(Debug, Default)]
pub(super) struct Profile {
    pub(super) head: Head,
    pub(super) spans: Vec<SpanRow>,
    pub(super) calls: Vec<CallRow>,
    pub(super) device: Vec<DeviceRow>,
    pub(super) names: BTreeMap<u32, String>,
    texts: Vec<String>,
    numbers: HashMap<String, TextId>,
    /// Events, and those that no row is made of, by phase and category.
    pub(super) events: u64,
    pub(super) ignored: BTreeMap<String, u64>,
    /// Events that could not be read.
    pub(super) bad: u64,
    /// Numbers that join an event to others and cannot be one.
    pub(super) no_ids: u64,
}

const KERNEL: u64 = 0;
const MEMCPY: u64 = 1;
const MEMSET: u64 = 2;
const SYNC: u64 = 3;
const OTHER: u64 = 4;

impl Profile {
    /// A text by its number.
    pub(super) fn text(&self, id: TextId) -> &str {
        self.texts.get(id as usize).map_or("?", String::as_str)
    }

    fn intern(&mut self, text: &str) -> TextId {
        if let Some(&id) = self.numbers.get(text) {
            return id;
        }
        let id = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), id);
        id
    }

    /// Takes an event. Times are those of the document, without its base.
    pub(super) fn take(&mut self, event: &Event) -> Result<(), Problem> {
        self.events += 1;
        if event.ph != "X" {
            if event.ph == "M" && event.name == "process_name" {
                if let (Some(pid), Some(name)) = (id(&event.pid), event.args.name.as_str()) {
                    self.names.insert(pid, name.to_owned());
                }
            } else if event.ph != "M" {
                self.ignore(event);
            }
            return Ok(());
        }
        let time = |key: &str, value: Option<&RawValue>| match value {
            Some(raw) => parse_us(raw.get()).map_err(|problem| Problem::with(raw, format!("{key}: {problem}"))),
            None => Err(Problem::whole(format!("a complete event (ph X) without {key}"))),
        };
        let activity = match &*event.cat {
            "kernel" | "Kernel" => Some(KERNEL),
            "gpu_memcpy" | "Memcpy" => Some(MEMCPY),
            "gpu_memset" | "Memset" => Some(MEMSET),
            "cuda_sync" => Some(SYNC),
            "gpu_user_annotation" => Some(OTHER),
            _ => None,
        };
        let (external_id, correlation) = (number(&event.args.external_id), number(&event.args.correlation));
        let is_none = |value: &Value, read: Option<u64>| read.is_none() && !value.is_null();
        let none = [is_none(&event.args.external_id, external_id), is_none(&event.args.correlation, correlation)];
        self.no_ids += none.into_iter().map(u64::from).sum::<u64>();
        if let Some(activity) = activity {
            let (ts_ns, dur_ns) = (time("ts", event.ts)?, time("dur", event.dur)?);
            let device = number(&event.args.device).or(number(&event.pid)).unwrap_or(0);
            let stream = number(&event.args.stream).or(number(&event.tid));
            let (name, bytes) = (self.intern(&event.name), number(&event.args.bytes));
            self.device.push(DeviceRow { ts_ns, dur_ns, device, stream, activity, name, correlation, bytes });
            return Ok(());
        }
        let (Some(pid), Some(tid)) = (id(&event.pid).filter(|p| *p > 0), id(&event.tid).filter(|t| *t > 0)) else {
            // The profiler's own tracks.
            let name = format!("{:.50} (of no thread: the profiler's own track)", event.cat);
            *self.ignored.entry(name).or_default() += 1;
            return Ok(());
        };
        let (ts_ns, dur_ns) = (time("ts", event.ts)?, time("dur", event.dur)?);
        let (name, category) = (self.intern(&event.name), self.intern(&event.cat));
        let thread = (pid, tid);
        if matches!(&*event.cat, "cuda_runtime" | "cuda_driver" | "Runtime") {
            let is_driver =
                event.cat == "cuda_driver" || event.name.starts_with("cu") && !event.name.starts_with("cuda");
            self.calls.push(CallRow { ts_ns, dur_ns, thread, name, category, is_driver, correlation, external_id });
        } else {
            self.spans.push(SpanRow { ts_ns, dur_ns, thread, name, category, external_id });
        }
        Ok(())
    }

    /// Whether it has what a profile of PyTorch is about.
    pub(super) fn has_work(&self) -> bool {
        let categories = ["cpu_op", "Operator", "operator", "user_annotation", "python_function"];
        let of_a_profiler = |s: &SpanRow| categories.contains(&self.text(s.category));
        !self.device.is_empty() || !self.calls.is_empty() || self.spans.iter().any(of_a_profiler)
    }

    fn ignore(&mut self, event: &Event) {
        let name = match &*event.cat {
            "" => format!("phase {}", event.ph),
            cat => cat.to_owned(),
        };
        *self.ignored.entry(name.chars().take(60).collect()).or_default() += 1;
    }

    /// Adds the base to all times, and puts the rows in order.
    pub(super) fn close(&mut self) {
        let base = self.head.base_ns;
        macro_rules! close {
            ($($rows:expr),*) => {$(
                for row in &mut $rows {
                    row.ts_ns = row.ts_ns.saturating_add(base).min(1 << 62);
                }
                $rows.sort_by_key(|row| row.ts_ns);
            )*};
        }
        close!(self.spans, self.calls, self.device);
    }

    /// First and last instant.
    pub(super) fn span_ns(&self) -> Option<(u64, u64)> {
        let ends = |from: Option<u64>, to: Option<u64>| from.zip(to);
        let spans = [
            ends(self.spans.first().map(|r| r.ts_ns), self.spans.iter().map(|r| r.ts_ns + r.dur_ns).max()),
            ends(self.calls.first().map(|r| r.ts_ns), self.calls.iter().map(|r| r.ts_ns + r.dur_ns).max()),
            ends(self.device.first().map(|r| r.ts_ns), self.device.iter().map(|r| r.ts_ns + r.dur_ns).max()),
        ];
        spans.into_iter().flatten().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// A whole number, in quotes or not.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|&n| n != u64::MAX)
}

/// A process or thread id.
fn id(value: &Value) -> Option<u32> {
    number(value).and_then(|n| u32::try_from(n).ok())
}

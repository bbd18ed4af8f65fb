//! Sources and operations, which ingero knows by numbers.

use std::collections::HashMap;

use ingero_format::Trace;
use ingero_format::catalog::{Aggregate as Total, Body, Kind, Layer, OtherEvent, StrId};
use ingero_replay::Merge;
use rusqlite::{Connection, params};

/// Sources of ingero by number.
pub(super) const CUDA: i64 = 1;
pub(super) const HOST: i64 = 3;
const DRIVER: i64 = 4;
pub(super) const IO: i64 = 5;

const SOURCES: &[(i64, &str, &str)] = &[
    (CUDA, "CUDA", "CUDA runtime calls, and those of graphs and NCCL"),
    (2, "NVIDIA", "NVIDIA's kernel driver: nothing is recorded of it"),
    (HOST, "HOST", "scheduler, page allocations, lives of processes"),
    (DRIVER, "DRIVER", "CUDA driver calls"),
    (IO, "IO", "requests to block devices"),
    (6, "TCP", "TCP: nothing is recorded of it"),
    (7, "NET", "sockets: nothing is recorded of it"),
];

/// Operations of ingero: source, number, name, and the symbols that count as it.
const OPS: &[(i64, i64, &str, &[&str])] = &[
    (CUDA, 1, "cudaMalloc", &["cudaMalloc"]),
    (CUDA, 2, "cudaFree", &["cudaFree"]),
    (CUDA, 3, "cudaLaunchKernel", &["cudaLaunchKernel"]),
    (CUDA, 4, "cudaMemcpy", &["cudaMemcpy"]),
    (CUDA, 5, "cudaStreamSync", &["cudaStreamSynchronize"]),
    (CUDA, 6, "cudaDeviceSync", &["cudaDeviceSynchronize"]),
    (CUDA, 7, "cudaMemcpyAsync", &["cudaMemcpyAsync"]),
    (CUDA, 8, "cudaMallocManaged", &["cudaMallocManaged"]),
    (HOST, 1, "sched_switch", &[]),
    (HOST, 2, "sched_wakeup", &[]),
    (HOST, 3, "mm_page_alloc", &[]),
    (HOST, 4, "oom_kill", &[]),
    (HOST, 5, "process_exec", &[]),
    (HOST, 6, "process_exit", &[]),
    (HOST, 7, "process_fork", &[]),
    (HOST, 10, "pod_restart", &[]),
    (HOST, 11, "pod_eviction", &[]),
    (HOST, 12, "pod_oom_kill", &[]),
    (DRIVER, 1, "cuLaunchKernel", &["cuLaunchKernel"]),
    (DRIVER, 2, "cuMemcpy", &["cuMemcpy"]),
    (DRIVER, 3, "cuMemcpyAsync", &["cuMemcpyAsync"]),
    (DRIVER, 4, "cuCtxSynchronize", &["cuCtxSynchronize"]),
    (DRIVER, 5, "cuMemAlloc", &["cuMemAlloc", "cuMemAlloc_v2"]),
    (DRIVER, 6, "cuMemAllocManaged", &["cuMemAllocManaged"]),
    (IO, 1, "block_read", &[]),
    (IO, 2, "block_write", &[]),
    (IO, 3, "block_discard", &[]),
    (6, 1, "tcp_retransmit", &[]),
    (7, 1, "net_send", &[]),
    (7, 2, "net_recv", &[]),
];
/// Operations of functions that ingero has no number for count from here.
const FIRST_OWN_OP: i64 = 101;
/// Sources that ingero has no number for count from here.
const FIRST_OWN_SOURCE: i64 = 101;

pub(super) const SWITCH: (i64, i64) = (HOST, 1);
pub(super) const WAKEUP: (i64, i64) = (HOST, 2);
pub(super) const PAGE_ALLOC: (i64, i64) = (HOST, 3);
pub(super) const EXEC: (i64, i64) = (HOST, 5);
pub(super) const EXIT: (i64, i64) = (HOST, 6);
pub(super) const FORK: (i64, i64) = (HOST, 7);

/// Which source and operation each function of a trace is.
pub(super) struct Ops {
    pub(super) functions: Vec<(i64, i64)>,
    /// Operations of other tools that are no function, by their own names for source and operation.
    pub(super) named: HashMap<(StrId, StrId), (i64, i64)>,
    /// Those that ingero has no number for.
    own: Vec<(i64, i64, String)>,
    own_sources: Vec<(i64, String)>,
}

impl Ops {
    pub(super) fn new(trace: &Trace) -> Self {
        let mut next = FIRST_OWN_OP;
        let mut own = Vec::new();
        let functions = trace.functions().iter().map(|f| {
            let source = if f.layer == Layer::Driver { DRIVER } else { CUDA };
            let known = OPS.iter().find(|(s, _, _, symbols)| *s == source && symbols.contains(&f.symbol.as_str()));
            if let Some((_, op, ..)) = known {
                return (source, *op);
            }
            let op = next;
            next += 1;
            own.push((source, op, f.symbol.clone()));
            (source, op)
        });
        let functions = functions.collect();
        let mut this = Self { functions, named: HashMap::new(), own, own_sources: Vec::new() };
        for event in Merge::of(trace, |kind| matches!(kind, Kind::Aggregate | Kind::OtherEvent)) {
            match event.body {
                Body::Aggregate(Total { source, op, func: None, .. })
                | Body::OtherEvent(OtherEvent { source, op, .. }) => {
                    this.name(trace, (source, op));
                }
                _ => {}
            }
        }
        this
    }

    fn name(&mut self, trace: &Trace, names: (StrId, StrId)) {
        if self.named.contains_key(&names) {
            return;
        }
        let (source, op) = (trace.string(names.0), trace.string(names.1));
        let known = SOURCES.iter().map(|(id, name, _)| (*id, *name));
        let own = self.own_sources.iter().map(|(id, name)| (*id, name.as_str()));
        let source = known
            .chain(own)
            .find(|(_, name)| *name == source)
            .map_or_else(|| (FIRST_OWN_SOURCE..).nth(self.own_sources.len()).unwrap_or(FIRST_OWN_SOURCE), |(id, _)| id);
        if source >= FIRST_OWN_SOURCE && self.own_sources.iter().all(|(id, _)| *id != source) {
            self.own_sources.push((source, trace.string(names.0).to_owned()));
        }
        let op = match OPS.iter().find(|(s, _, name, _)| *s == source && *name == op) {
            Some((_, number, ..)) => *number,
            None => {
                let number = (FIRST_OWN_OP..).nth(self.own.len()).unwrap_or(FIRST_OWN_OP);
                self.own.push((source, number, op.to_owned()));
                number
            }
        };
        self.named.insert(names, (source, op));
    }

    /// What a total is of.
    pub(super) fn of(&self, total: &Total) -> Option<(i64, i64)> {
        match total.func {
            Some(func) => self.functions.get(func.index()).copied(),
            None => self.named.get(&(total.source, total.op)).copied(),
        }
    }

    pub(super) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        for (id, name, what) in SOURCES {
            db.execute("INSERT INTO sources VALUES (?1, ?2, ?3)", params![id, name, what])?;
        }
        for (id, name) in &self.own_sources {
            db.execute("INSERT INTO sources VALUES (?1, ?2, ?3)", params![id, name, "no source of ingero"])?;
        }
        let mut insert = db.prepare("INSERT INTO ops VALUES (?1, ?2, ?3, ?4)")?;
        for (source, op, name, symbols) in OPS {
            insert.execute(params![source, op, name, symbols.join(", ")])?;
        }
        for (source, op, name) in &self.own {
            insert.execute(params![source, op, name, "no operation of ingero"])?;
        }
        Ok(())
    }
}

//! Who is who: thread ids become lives of threads.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::io::Write;

use ingero_format::catalog::{
    Affinity, BOUND_AT_START, NAMED_AT_START, NAMED_BY_EXEC, NAMED_BY_FORK, NAMED_BY_RENAME, NAMED_WHEN_SEEN, NO_CPU,
    Name, Process, StrId, TaskId,
};
use ingero_format::{Error, Task, TraceWriter};

use crate::proc::affinity::read_affinity;
use crate::proc::clock::{TickClock, monotonic_ns};
use crate::proc::process::{self, ProcessNow};
use crate::proc::stat::Stat;
use crate::text;

mod roster;

/// Hashes an id by one multiplication: ids are handed out by the kernel, one after the other.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u32(u32::from(b));
        }
    }
    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

type ById<T> = HashMap<u32, T, BuildHasherDefault<IdHasher>>;

/// Where and when something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// `CLOCK_MONOTONIC`.
    pub ts_ns: u64,
    /// CPU, or [`NO_CPU`].
    pub cpu: u32,
}

impl At {
    fn now() -> Self {
        Self { ts_ns: monotonic_ns(), cpu: NO_CPU }
    }
}

#[derive(Debug, Clone, Copy)]
struct Thread {
    id: TaskId,
    pid: u32,
    start_ns: Option<u64>,
    name: Option<StrId>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Group {
    parent_pid: Option<u32>,
    exe: Option<StrId>,
    args: Option<StrId>,
    followed: bool,
    /// Its last thread has ended.
    dead: bool,
    /// Its main thread has left its CPU for good.
    leader_gone: bool,
}

/// Every task that is alive as far as the events tell, and the rows that say who they are.
///
/// The kernel reuses thread ids: a fork always begins a new life, an exit ends one at the thread's last switch (a dying
/// thread still switches), and an id that shows up in another process than before is a life whose birth was lost.
#[derive(Debug)]
pub struct Tasks {
    threads: ById<Thread>,
    groups: ById<Group>,
    ticks: TickClock,
    redact_args: bool,
    follow_all: bool,
    born_processes: u64,
    /// By id: the process of a task, and whether its birth or its program's start was seen.
    lives: Vec<(u32, bool)>,
    affinities: bool,
}

impl Tasks {
    /// Knows the idle task alone.
    #[must_use]
    pub fn new(redact_args: bool, follow_all: bool) -> Self {
        Self {
            threads: ById::default(),
            groups: ById::default(),
            ticks: TickClock::read(),
            redact_args,
            follow_all,
            born_processes: 0,
            lives: Vec::new(),
            affinities: false,
        }
    }

    /// Writes down every process and thread of `/proc`, before anything is recorded. Those born between this and the
    /// first event are met as strangers later.
    ///
    /// # Errors
    /// When the file does not take the rows.
    pub fn scan<W: Write>(&mut self, out: &mut TraceWriter<W>, follow: &HashSet<u32>) -> Result<(), Error> {
        for pid in process::list_ids("/proc") {
            self.scan_process(out, pid, self.follow_all || follow.contains(&pid))?;
        }
        Ok(())
    }

    /// Writes down that a process is followed which [`scan`](Self::scan) took for another or came too early to see.
    ///
    /// # Errors
    /// When the file does not take the rows.
    pub fn follow<W: Write>(&mut self, out: &mut TraceWriter<W>, pid: u32) -> Result<(), Error> {
        let (Some(thread), Some(group)) = (self.threads.get(&pid), self.groups.get_mut(&pid)) else {
            return self.scan_process(out, pid, true);
        };
        group.followed = true;
        let at = At::now();
        out.push(at.ts_ns, at.cpu, &row(thread.id, group))
    }

    fn scan_process<W: Write>(&mut self, out: &mut TraceWriter<W>, pid: u32, followed: bool) -> Result<(), Error> {
        let Some(now) = process::read_process(pid) else { return Ok(()) };
        let id = self.add_process(out, At::now(), pid, &now, followed, NAMED_AT_START)?;
        self.bound(out, id, pid)?;
        for tid in process::list_ids(&format!("/proc/{pid}/task")) {
            if tid != pid
                && let Some(stat) = process::read_thread(pid, tid)
            {
                let id = self.add(out, pid, tid, Some(self.ticks.monotonic_ns(stat.start_ticks)));
                self.name(out, At::now(), (tid, id), &text::from_bytes(&stat.comm), NAMED_AT_START)?;
                self.bound(out, id, tid)?;
            }
        }
        Ok(())
    }

    fn add_process<W: Write>(
        &mut self,
        out: &mut TraceWriter<W>,
        at: At,
        pid: u32,
        now: &ProcessNow,
        followed: bool,
        source: u64,
    ) -> Result<TaskId, Error> {
        let id = self.add(out, pid, pid, Some(self.ticks.monotonic_ns(now.stat.start_ticks)));
        let group = Group { followed, ..self.group_of(out, now) };
        self.groups.insert(pid, group);
        self.name(out, at, (pid, id), &text::from_bytes(&now.stat.comm), source)?;
        out.push(at.ts_ns, at.cpu, &row(id, &group))?;
        Ok(id)
    }

    fn group_of<W: Write>(&self, out: &mut TraceWriter<W>, now: &ProcessNow) -> Group {
        let mut intern = |bytes: &Vec<u8>| out.string(&text::from_bytes(bytes));
        let exe = now.exe.as_ref().map(&mut intern);
        let args = now.args.as_ref().filter(|_| !self.redact_args).map(&mut intern);
        Group { parent_pid: Some(now.stat.parent_pid), exe, args, ..Group::default() }
    }

    fn add<W: Write>(&mut self, out: &mut TraceWriter<W>, pid: u32, tid: u32, start_ns: Option<u64>) -> TaskId {
        let id = out.task(Task { pid, tid, start_ns });
        self.threads.insert(tid, Thread { id, pid, start_ns, name: None });
        if self.lives.len() <= id.index() {
            self.lives.resize(id.index() + 1, (0, false));
        }
        if let Some(life) = self.lives.get_mut(id.index()) {
            *life = (pid, false);
        }
        id
    }

    fn begins_now(&mut self, id: TaskId) {
        if let Some((_, seen)) = self.lives.get_mut(id.index()) {
            *seen = true;
        }
    }

    /// The process of a task; 0 for one that is not known.
    #[must_use]
    pub fn pid_of(&self, task: TaskId) -> u32 {
        self.lives.get(task.index()).map_or(0, |(pid, _)| *pid)
    }

    /// Whether all that a task did was within sight: it was born, or its program began, while the recording ran.
    #[must_use]
    pub fn seen_from_birth(&self, task: TaskId) -> bool {
        self.lives.get(task.index()).is_some_and(|(_, seen)| *seen)
    }

    /// The life of a thread whose process is not told.
    ///
    /// # Errors
    /// When the file does not take the rows about a stranger.
    pub fn by_tid<W: Write>(&mut self, out: &mut TraceWriter<W>, at: At, tid: u32) -> Result<TaskId, Error> {
        match self.threads.get(&tid) {
            Some(thread) => Ok(thread.id),
            None => {
                let pid = process::read_group(tid).unwrap_or(tid);
                self.get(out, at, tid, pid)
            }
        }
    }

    /// The life of a process's main thread, if the process is known.
    #[must_use]
    pub fn main_of(&self, pid: u32) -> Option<TaskId> {
        self.threads.get(&pid).filter(|thread| thread.pid == pid).map(|thread| thread.id)
    }

    /// Also writes down, at the start, which CPUs each thread may use.
    #[must_use]
    pub fn with_affinities(self, affinities: bool) -> Self {
        Self { affinities, ..self }
    }

    /// Writes down which CPUs a thread may use.
    fn bound<W: Write>(&self, out: &mut TraceWriter<W>, task: TaskId, tid: u32) -> Result<(), Error> {
        let Some(cpus) = read_affinity(tid).filter(|_| self.affinities) else { return Ok(()) };
        let (at, cpus) = (At::now(), out.string(&cpus));
        out.push(at.ts_ns, at.cpu, &Affinity { task, cpus, source: BOUND_AT_START })
    }

    /// Writes down the name of a thread.
    fn name<W: Write>(
        &mut self,
        out: &mut TraceWriter<W>,
        at: At,
        (tid, task): (u32, TaskId),
        name: &str,
        source: u64,
    ) -> Result<(), Error> {
        let name = out.string(name);
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.name = Some(name);
        }
        out.push(at.ts_ns, at.cpu, &Name { task, name, source })
    }

    /// The current life of a thread id in a process.
    ///
    /// # Errors
    /// When the file does not take the rows about a stranger.
    #[inline]
    pub fn get<W: Write>(&mut self, out: &mut TraceWriter<W>, at: At, tid: u32, pid: u32) -> Result<TaskId, Error> {
        if tid == 0 {
            return Ok(TaskId(0));
        }
        match self.threads.get(&tid) {
            Some(thread) if thread.pid == pid => Ok(thread.id),
            _ => self.meet(out, at, tid, pid),
        }
    }

    /// A stranger: its birth was before the first event or was lost. `/proc` may still know it.
    #[cold]
    fn meet<W: Write>(&mut self, out: &mut TraceWriter<W>, at: At, tid: u32, pid: u32) -> Result<TaskId, Error> {
        if pid == tid {
            return match process::read_process(pid).filter(|now| self.lived_at(at, &now.stat)) {
                Some(now) => {
                    let parent = self.groups.get(&now.stat.parent_pid).is_some_and(|g| g.followed);
                    self.add_process(out, at, pid, &now, parent || self.follow_all, NAMED_WHEN_SEEN)
                }
                None => {
                    self.groups.insert(pid, Group { followed: self.follow_all, ..Group::default() });
                    Ok(self.add(out, pid, tid, None))
                }
            };
        }
        let stat = process::read_thread(pid, tid).filter(|stat| self.lived_at(at, stat));
        let start_ns = stat.as_ref().map(|s| self.ticks.monotonic_ns(s.start_ticks));
        let id = self.add(out, pid, tid, start_ns);
        if let Some(stat) = stat {
            self.name(out, at, (tid, id), &text::from_bytes(&stat.comm), NAMED_WHEN_SEEN)?;
        }
        // A process that nobody has met is one that no report could name.
        if !self.groups.contains_key(&pid) {
            self.get(out, at, pid, pid)?;
        }
        Ok(id)
    }

    /// Whether what `/proc` says now is about the life that an event of the past is about.
    fn lived_at(&self, at: At, stat: &Stat) -> bool {
        self.ticks.monotonic_ns(stat.start_ticks) <= at.ts_ns.saturating_add(self.ticks.tick_ns())
    }

    /// Whether the recording follows this process.
    #[must_use]
    pub fn is_followed(&self, pid: u32) -> bool {
        self.groups.get(&pid).is_some_and(|g| g.followed)
    }

    /// Processes whose birth was recorded.
    #[must_use]
    pub fn born_processes(&self) -> u64 {
        self.born_processes
    }

    /// A thread or process was born. Returns its life.
    ///
    /// # Errors
    /// When the file does not take the rows.
    pub fn fork<W: Write>(
        &mut self,
        out: &mut TraceWriter<W>,
        at: At,
        parent_pid: u32,
        (child_tid, child_pid): (u32, u32),
        comm: &str,
    ) -> Result<TaskId, Error> {
        let id = self.add(out, child_pid, child_tid, Some(at.ts_ns));
        self.begins_now(id);
        self.name(out, at, (child_tid, id), comm, NAMED_BY_FORK)?;
        if child_tid == child_pid {
            self.born_processes += 1;
            let parent = self.groups.get(&parent_pid).copied().unwrap_or_default();
            let followed = parent.followed || self.follow_all;
            let (exe, args) = (parent.exe, parent.args);
            let group = Group { parent_pid: Some(parent_pid), exe, args, followed, ..Group::default() };
            self.groups.insert(child_pid, group);
            out.push(at.ts_ns, at.cpu, &row(id, &group))?;
        }
        Ok(id)
    }

    /// A process runs a new program. Returns the life that goes on, and the one that called exec where that was another
    /// thread than the main one: it takes over the main thread's id and birth, as the kernel has it.
    ///
    /// # Errors
    /// When the file does not take the rows.
    pub fn exec<W: Write>(
        &mut self,
        out: &mut TraceWriter<W>,
        at: At,
        pid: u32,
        old_tid: u32,
        comm: &str,
        filename: &str,
    ) -> Result<(TaskId, Option<TaskId>), Error> {
        let caller = if old_tid == pid { None } else { self.threads.remove(&old_tid).filter(|t| t.pid == pid) };
        let id = self.get(out, at, pid, pid)?;
        self.begins_now(id);
        self.name(out, at, (pid, id), comm, NAMED_BY_EXEC)?;
        // By now the process may have gone on to another program, or its id to another process.
        let birth = self.threads.get(&pid).and_then(|t| t.start_ns);
        let now = process::read_process(pid).filter(|now| {
            let start = self.ticks.monotonic_ns(now.stat.start_ticks);
            let same = birth.is_none_or(|b| b.abs_diff(start) <= 2 * self.ticks.tick_ns());
            same && text::from_bytes(&now.stat.comm) == comm
        });
        let mut group = now.as_ref().map(|now| self.group_of(out, now)).unwrap_or_default();
        if group.exe.is_none() {
            group.exe = Some(out.string(filename));
        }
        let before = self.groups.get(&pid).copied().unwrap_or_default();
        group.followed = before.followed || self.follow_all;
        group.parent_pid = group.parent_pid.or(before.parent_pid);
        self.groups.insert(pid, group);
        out.push(at.ts_ns, at.cpu, &row(id, &group))?;
        Ok((id, caller.map(|t| t.id)))
    }

    /// A thread got another name.
    ///
    /// # Errors
    /// When the file does not take the row.
    pub fn rename<W: Write>(
        &mut self,
        out: &mut TraceWriter<W>,
        at: At,
        (tid, pid): (u32, u32),
        comm: &str,
    ) -> Result<(), Error> {
        let id = self.get(out, at, tid, pid)?;
        self.name(out, at, (tid, id), comm, NAMED_BY_RENAME)
    }

    /// The last thread of a process ended.
    pub fn group_exit(&mut self, pid: u32) {
        if let Some(group) = self.groups.get_mut(&pid) {
            group.dead = true;
            if group.leader_gone {
                self.threads.remove(&pid);
                self.groups.remove(&pid);
            }
        }
    }

    /// A thread left its CPU for the last time: its id is free for another.
    pub fn last_switch(&mut self, tid: u32, pid: u32) {
        if tid != pid {
            self.threads.remove(&tid);
        } else if let Some(group) = self.groups.get_mut(&pid) {
            // The main thread's identity lives on while others run: an exec of theirs takes it over.
            group.leader_gone = true;
            if group.dead {
                self.threads.remove(&tid);
                self.groups.remove(&pid);
            }
        }
    }
}

fn row(task: TaskId, group: &Group) -> Process {
    let parent_pid = group.parent_pid.map(u64::from);
    Process { task, parent_pid, exe: group.exe, args: group.args, followed: u64::from(group.followed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_format::WriterOptions;

    /// Ids that no process has: above the largest that the kernel hands out.
    const P: u32 = 5_000_000;

    struct Stage {
        out: TraceWriter<Vec<u8>>,
        tasks: Tasks,
        now: u64,
    }

    impl Stage {
        fn new() -> Self {
            let out = TraceWriter::new(Vec::new(), WriterOptions::default()).unwrap();
            Self { out, tasks: Tasks::new(false, false), now: monotonic_ns() }
        }
        fn at(&mut self) -> At {
            self.now += 1;
            At { ts_ns: self.now, cpu: 0 }
        }
        fn get(&mut self, tid: u32, pid: u32) -> TaskId {
            let at = self.at();
            self.tasks.get(&mut self.out, at, tid, pid).unwrap()
        }
        fn fork(&mut self, parent: u32, tid: u32, pid: u32) -> TaskId {
            let at = self.at();
            self.tasks.fork(&mut self.out, at, parent, (tid, pid), "x").unwrap()
        }
    }

    #[test]
    fn the_idle_task_is_zero() {
        assert_eq!(Stage::new().get(0, 0), TaskId(0));
    }

    #[test]
    fn an_id_that_is_reused_is_another_life() {
        let mut s = Stage::new();
        let first = s.fork(P, P + 1, P + 1);
        assert_eq!(s.get(P + 1, P + 1), first);
        s.tasks.group_exit(P + 1);
        // It is still itself until it has left its CPU.
        assert_eq!(s.get(P + 1, P + 1), first);
        s.tasks.last_switch(P + 1, P + 1);
        let second = s.fork(P, P + 1, P + 1);
        assert_ne!(first, second);
        assert_eq!(s.get(P + 1, P + 1), second);
        // Its birth was lost, but it is a thread of another process now.
        let third = s.get(P + 1, P + 2);
        assert!(third != first && third != second);
        assert_eq!(s.get(P + 1, P + 2), third);
    }

    #[test]
    fn exec_of_a_helper_thread_goes_on_as_the_main_thread() {
        let mut s = Stage::new();
        let main = s.fork(P, P + 1, P + 1);
        let helper = s.fork(P + 1, P + 2, P + 1);
        // The main thread dies first; its process lives.
        s.tasks.last_switch(P + 1, P + 1);
        let at = s.at();
        let (goes_on, caller) = s.tasks.exec(&mut s.out, at, P + 1, P + 2, "new", "/bin/new").unwrap();
        assert_eq!((goes_on, caller), (main, Some(helper)));
        assert_eq!(s.get(P + 1, P + 1), main);
        assert_ne!(s.get(P + 2, P + 2), helper);
    }

    #[test]
    fn the_main_thread_that_exits_first_is_no_stranger_later() {
        let mut s = Stage::new();
        let main = s.fork(P, P + 1, P + 1);
        s.fork(P + 1, P + 2, P + 1);
        s.tasks.last_switch(P + 1, P + 1);
        assert_eq!(s.get(P + 1, P + 1), main);
        s.tasks.group_exit(P + 1);
        assert_ne!(s.get(P + 1, P + 1), main);
    }

    #[test]
    fn descendants_are_followed() {
        let mut s = Stage::new();
        let me = std::process::id();
        s.tasks.scan(&mut s.out, &HashSet::from([me])).unwrap();
        assert!(s.tasks.is_followed(me));
        s.fork(me, P + 1, P + 1);
        s.fork(P + 1, P + 2, P + 2);
        s.fork(1, P + 3, P + 3);
        assert!(s.tasks.is_followed(P + 2));
        // One that was born before anybody could see it be forked.
        s.fork(1, P + 4, P + 4);
        assert!(!s.tasks.is_followed(P + 4));
        s.tasks.follow(&mut s.out, P + 4).unwrap();
        assert!(s.tasks.is_followed(P + 4));
        assert!(!s.tasks.is_followed(P + 3));
    }

    #[test]
    fn a_scan_knows_all_threads() {
        let mut s = Stage::new();
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let (send_tid, receive_tid) = std::sync::mpsc::channel();
        let helper = std::thread::spawn(move || {
            // SAFETY: gettid takes nothing and cannot fail.
            send_tid.send(unsafe { libc::gettid() }).unwrap();
            let _ = receive.recv();
        });
        let tid = u32::try_from(receive_tid.recv().unwrap()).unwrap();
        s.tasks.scan(&mut s.out, &HashSet::new()).unwrap();
        let thread = s.tasks.threads[&tid];
        assert_eq!(thread.pid, std::process::id());
        let age = monotonic_ns() - thread.start_ns.unwrap();
        assert!(age < 60_000_000_000, "{age}");
        drop(send);
        helper.join().unwrap();
    }
}

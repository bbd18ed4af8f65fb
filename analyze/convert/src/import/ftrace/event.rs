//! What an event printed, read into its fields.
//!
//! Two writers print them: the kernel (`prev_comm=sh prev_pid=1 …`) and the plugins of
//! `trace-cmd report` (`sh:1 [120] S ==> …`).

use super::state::parse_state;
use super::text::{Fields, digits, hex, trim_start, word};

/// A task as an event names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    pub(crate) tid: u32,
    pub(crate) comm: &'a [u8],
}

/// Flags of a page allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gfp<'a> {
    /// As the kernel prints them, joined by `|`.
    Names(&'a [u8]),
    /// As the kernel that recorded them has them.
    Bits(u64),
}

/// A kernel event that has a table in the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelEvent<'a> {
    Switch { prev: Named<'a>, prev_prio: Option<u64>, prev_state: u64, next: Named<'a>, next_prio: Option<u64> },
    Waking { wakee: Named<'a>, target_cpu: u64 },
    Wakeup { wakee: Named<'a>, target_cpu: u64 },
    WakeupNew { wakee: Named<'a>, target_cpu: u64 },
    Fork { parent: Named<'a>, child: Named<'a> },
    NewTask { child: Named<'a>, thread: bool },
    Exec { file: &'a [u8], tid: u32, old_tid: u32 },
    Exit { task: Named<'a>, group_dead: Option<u64> },
    Rename { tid: u32, name: &'a [u8] },
    PageAlloc { pfn: Option<u64>, order: u64, migratetype: Option<u64>, gfp_flags: Gfp<'a> },
    BlockIssue { dev: u64, rwbs: &'a [u8], bytes: u64, sector: u64, comm: &'a [u8] },
    BlockComplete { dev: u64, rwbs: &'a [u8], bytes: u64, sector: u64, error: i64 },
}

/// The kernel events that are read, by number of their parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelName {
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Fork,
    NewTask,
    Exec,
    Exit,
    Rename,
    PageAlloc,
    BlockIssue,
    BlockComplete,
}

impl KernelName {
    /// The event with this name.
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"sched_switch" => Self::Switch,
            b"sched_waking" => Self::Waking,
            b"sched_wakeup" => Self::Wakeup,
            b"sched_wakeup_new" => Self::WakeupNew,
            b"sched_process_fork" => Self::Fork,
            b"task_newtask" => Self::NewTask,
            b"sched_process_exec" => Self::Exec,
            b"sched_process_exit" => Self::Exit,
            b"task_rename" => Self::Rename,
            b"mm_page_alloc" => Self::PageAlloc,
            b"block_rq_issue" => Self::BlockIssue,
            b"block_rq_complete" => Self::BlockComplete,
            _ => return None,
        })
    }

    /// What its text has to look like, for messages.
    pub(crate) fn form(self) -> &'static str {
        match self {
            Self::Switch => "prev_comm=… prev_pid=… prev_prio=… prev_state=… ==> next_comm=… next_pid=… next_prio=…",
            Self::Waking | Self::Wakeup | Self::WakeupNew => "comm=… pid=… prio=… target_cpu=…",
            Self::Fork => "comm=… pid=… child_comm=… child_pid=…",
            Self::NewTask => "pid=… comm=… clone_flags=… oom_score_adj=…",
            Self::Exec => "filename=… pid=… old_pid=…",
            Self::Exit => "comm=… pid=… prio=…",
            Self::Rename => "pid=… oldcomm=… newcomm=… oom_score_adj=…",
            Self::PageAlloc => "page=… pfn=… order=… migratetype=… gfp_flags=…",
            Self::BlockIssue => "MAJOR,MINOR RWBS BYTES (…) SECTOR + SECTORS … [comm]",
            Self::BlockComplete => "MAJOR,MINOR RWBS (…) SECTOR + SECTORS … [error]",
        }
    }

    /// Reads the event's text; `None` where it has another form.
    pub(crate) fn parse(self, body: &[u8]) -> Option<KernelEvent<'_>> {
        match self {
            Self::Switch => parse_switch(body).or_else(|| parse_plugin_switch(body)),
            Self::Waking => parse_wake(body).map(|(wakee, target_cpu)| KernelEvent::Waking { wakee, target_cpu }),
            Self::Wakeup => parse_wake(body).map(|(wakee, target_cpu)| KernelEvent::Wakeup { wakee, target_cpu }),
            Self::WakeupNew => parse_wake(body).map(|(wakee, target_cpu)| KernelEvent::WakeupNew { wakee, target_cpu }),
            Self::Fork => parse_fork(body),
            Self::NewTask => parse_newtask(body),
            Self::Exec => parse_exec(body),
            Self::Exit => parse_exit(body),
            Self::Rename => parse_rename(body),
            Self::PageAlloc => parse_page_alloc(body),
            Self::BlockIssue => parse_block_issue(body),
            Self::BlockComplete => parse_block_complete(body),
        }
    }
}

fn parse_switch(body: &[u8]) -> Option<KernelEvent<'_>> {
    let mut f = Fields(body);
    f.expect(b"prev_comm=")?;
    let comm = f.comm(b" prev_pid=")?;
    let prev = Named { comm, tid: f.tid()? };
    f.expect(b" prev_prio=")?;
    let prev_prio = f.signed()?;
    f.expect(b" prev_state=")?;
    let prev_state = parse_state(f.word())?;
    f.expect(b"==> next_comm=")?;
    let comm = f.comm(b" next_pid=")?;
    let next = Named { comm, tid: f.tid()? };
    f.expect(b" next_prio=")?;
    let next_prio = f.signed()?;
    Some(KernelEvent::Switch { prev, prev_prio, prev_state, next, next_prio })
}

/// `bash:9521 [120] S ==> swapper/1:0 [120]`
fn parse_plugin_switch(body: &[u8]) -> Option<KernelEvent<'_>> {
    // A name has at most 15 bytes, so that the last arrow may be inside one, but not the only one.
    for at in memchr::memmem::find_iter(body, b" ==> ") {
        let (left, right) = (&body[..at], &body[at + 5..]);
        let Some(state_at) = memchr::memrchr(b' ', left) else { continue };
        let parsed = (|| {
            let state = parse_state(&left[state_at + 1..])?;
            Some((parse_plugin_task(&left[..state_at])?, state, parse_plugin_task(right)?))
        })();
        if let Some(((prev, prev_prio), prev_state, (next, next_prio))) = parsed {
            return Some(KernelEvent::Switch { prev, prev_prio, prev_state, next, next_prio });
        }
    }
    None
}

/// `bash:9521 [120]`
fn parse_plugin_task(text: &[u8]) -> Option<(Named<'_>, Option<u64>)> {
    let inside = text.strip_suffix(b"]")?;
    let open = memchr::memmem::rfind(inside, b" [")?;
    let mut f = Fields(&inside[open + 2..]);
    let prio = f.signed()?;
    let task = &text[..open];
    let colon = memchr::memrchr(b':', task)?;
    let (tid, rest) = digits(&task[colon + 1..])?;
    (rest.is_empty() && f.0.is_empty() && colon <= super::text::COMM_MAX).then_some(())?;
    Some((Named { comm: &task[..colon], tid: u32::try_from(tid).ok()? }, prio))
}

fn parse_wake(body: &[u8]) -> Option<(Named<'_>, u64)> {
    let kernel = || {
        let mut f = Fields(body);
        f.expect(b"comm=")?;
        let comm = f.comm(b" pid=")?;
        let wakee = Named { comm, tid: f.tid()? };
        f.until(b" target_cpu=")?;
        Some((wakee, f.number()?))
    };
    // `bash:9524 [120] CPU:000`, in older versions with ` success=1` or `<CANT FIND FIELD success>`
    let plugin = || {
        let at = memchr::memmem::rfind(body, b" CPU:")?;
        let (cpu, _) = digits(&body[at + 5..])?;
        let end = memchr::memrchr(b']', &body[..at])?;
        Some((parse_plugin_task(&body[..=end])?.0, cpu))
    };
    kernel().or_else(plugin).filter(|(_, cpu)| *cpu < u64::from(u32::MAX))
}

fn parse_fork(body: &[u8]) -> Option<KernelEvent<'_>> {
    let mut f = Fields(body);
    f.expect(b"comm=")?;
    let comm = f.comm(b" pid=")?;
    let parent = Named { comm, tid: f.tid()? };
    f.expect(b" child_comm=")?;
    let comm = f.comm(b" child_pid=")?;
    Some(KernelEvent::Fork { parent, child: Named { comm, tid: f.tid()? } })
}

fn parse_newtask(body: &[u8]) -> Option<KernelEvent<'_>> {
    const CLONE_THREAD: u64 = 0x10000;
    let mut f = Fields(body);
    f.expect(b"pid=")?;
    let tid = f.tid()?;
    f.expect(b" comm=")?;
    let comm = f.comm(b" clone_flags=")?;
    let (flags, _) = hex(f.0.strip_prefix(b"0x").unwrap_or(f.0))?;
    Some(KernelEvent::NewTask { child: Named { tid, comm }, thread: flags & CLONE_THREAD != 0 })
}

fn parse_exec(body: &[u8]) -> Option<KernelEvent<'_>> {
    let text = body.strip_prefix(b"filename=")?;
    let at = memchr::memmem::rfind(text, b" old_pid=")?;
    let mut old = Fields(&text[at + 9..]);
    let pid_at = memchr::memmem::rfind(&text[..at], b" pid=")?;
    let mut pid = Fields(&text[pid_at + 5..at]);
    Some(KernelEvent::Exec { file: &text[..pid_at], tid: pid.tid()?, old_tid: old.tid()? })
}

fn parse_exit(body: &[u8]) -> Option<KernelEvent<'_>> {
    let mut f = Fields(body);
    f.expect(b"comm=")?;
    let comm = f.comm(b" pid=")?;
    let task = Named { comm, tid: f.tid()? };
    f.expect(b" prio=")?;
    f.signed()?;
    let group_dead = f.0.strip_prefix(b" group_dead=").map(|t| u64::from(matches!(t, b"true" | b"1")));
    Some(KernelEvent::Exit { task, group_dead })
}

fn parse_rename(body: &[u8]) -> Option<KernelEvent<'_>> {
    let mut f = Fields(body);
    f.expect(b"pid=")?;
    let tid = f.tid()?;
    f.expect(b" oldcomm=")?;
    f.until(b" newcomm=")?;
    Some(KernelEvent::Rename { tid, name: f.comm(b" oom_score_adj=")? })
}

fn parse_page_alloc(body: &[u8]) -> Option<KernelEvent<'_>> {
    let mut f = Fields(body);
    f.expect(b"page=")?;
    // `%p` is padded with blanks where it is null.
    f.until(b" pfn=")?;
    let pfn = word(f.word())?;
    f.expect(b"order=")?;
    let order = f.number()?;
    f.expect(b" migratetype=")?;
    let migratetype = f.signed()?;
    f.expect(b" gfp_flags=")?;
    // Frame 0 is never handed out: it stands for a failed allocation, as does the older ~0.
    Some(KernelEvent::PageAlloc {
        pfn: (pfn != 0).then_some(pfn).filter(|p| *p != u64::MAX),
        order,
        migratetype,
        gfp_flags: Gfp::Names(f.0),
    })
}

/// `MAJOR,MINOR RWBS ` as device and kind.
fn parse_device<'a>(f: &mut Fields<'a>) -> Option<(u64, &'a [u8])> {
    let major = f.number()?;
    f.expect(b",")?;
    let minor = f.number().filter(|m| *m < 1 << 20)?;
    f.expect(b" ")?;
    Some((major.checked_mul(1 << 20)? | minor, f.word()))
}

/// `(COMMAND) SECTOR + SECTORS … [` as sector and sectors; the last field is what is left.
fn parse_sectors(f: &mut Fields) -> Option<(u64, u64)> {
    f.expect(b"(")?;
    f.until(b") ")?;
    let sector = f.number()?;
    f.expect(b" + ")?;
    let sectors = f.number()?;
    f.until(b"[")?;
    f.0 = f.0.strip_suffix(b"]")?;
    Some((sector, sectors))
}

fn parse_block_issue(body: &[u8]) -> Option<KernelEvent<'_>> {
    let mut f = Fields(body);
    let (dev, rwbs) = parse_device(&mut f)?;
    let bytes = f.number()?;
    f.expect(b" ")?;
    let (sector, _) = parse_sectors(&mut f)?;
    Some(KernelEvent::BlockIssue { dev, rwbs, bytes, sector, comm: f.0 })
}

fn parse_block_complete(body: &[u8]) -> Option<KernelEvent<'_>> {
    let mut f = Fields(body);
    let (dev, rwbs) = parse_device(&mut f)?;
    let (sector, sectors) = parse_sectors(&mut f)?;
    let error = word(trim_start(f.0))?.cast_signed();
    Some(KernelEvent::BlockComplete { dev, rwbs, bytes: sectors.checked_mul(512)?, sector, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<'a>(name: &str, body: &'a str) -> Option<KernelEvent<'a>> {
        KernelName::from_name(name.as_bytes()).unwrap().parse(body.as_bytes())
    }

    fn named(comm: &str, tid: u32) -> Named<'_> {
        Named { comm: comm.as_bytes(), tid }
    }

    #[test]
    fn switches_of_both_writers() {
        let expected = KernelEvent::Switch {
            prev: named("bash", 9521),
            prev_prio: Some(120),
            prev_state: 1,
            next: named("swapper/1", 0),
            next_prio: Some(120),
        };
        let kernel =
            "prev_comm=bash prev_pid=9521 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120";
        assert_eq!(parse("sched_switch", kernel), Some(expected));
        assert_eq!(parse("sched_switch", "bash:9521 [120] S ==> swapper/1:0 [120]"), Some(expected));
        assert_eq!(parse("sched_switch", &kernel[..kernel.len() - 4]), None);
    }

    #[test]
    fn switches_of_tasks_with_hostile_names() {
        for (prev, next) in
            [(" ==> next_comm=", "x prev_pid=1"), ("x prev_pid=1", " ==> next_comm="), ("", "a next_pid=2")]
        {
            let text = format!(
                "prev_comm={prev} prev_pid=7 prev_prio=-1 prev_state=R+ ==> next_comm={next} next_pid=8 next_prio=120"
            );
            let Some(KernelEvent::Switch { prev: p, prev_prio, prev_state, next: n, .. }) =
                parse("sched_switch", &text)
            else {
                panic!("{text}")
            };
            assert_eq!((p, n, prev_prio, prev_state), (named(prev, 7), named(next, 8), None, 0x100));
            let text = format!("{prev}:7 [120] R ==> {next}:8 [120]");
            let Some(KernelEvent::Switch { prev: p, next: n, .. }) = parse("sched_switch", &text) else {
                panic!("{text}")
            };
            assert_eq!((p, n), (named(prev, 7), named(next, 8)));
        }
    }

    #[test]
    fn wakes() {
        let w = |wakee, target_cpu| Some(KernelEvent::Waking { wakee, target_cpu });
        assert_eq!(
            parse("sched_waking", "comm=pid=3 prio=4 pid=9440 prio=120 target_cpu=011"),
            w(named("pid=3 prio=4", 9440), 11)
        );
        assert_eq!(parse("sched_waking", "comm=a pid=1 prio=120 success=1 target_cpu=0"), w(named("a", 1), 0));
        assert_eq!(parse("sched_waking", "bash:9524 [120] CPU:003"), w(named("bash", 9524), 3));
        assert_eq!(parse("sched_waking", "bash:9524 [120] success=1 CPU:003"), w(named("bash", 9524), 3));
        assert_eq!(parse("sched_waking", "comm=a pid=1 prio=120"), None);
    }

    #[test]
    fn lives() {
        assert_eq!(
            parse("sched_process_fork", "comm=a pid=1 pid=478 child_comm=q child_pid=7 child_pid=480"),
            Some(KernelEvent::Fork { parent: named("a pid=1", 478), child: named("q child_pid=7", 480) })
        );
        assert_eq!(
            parse("sched_process_exec", "filename=/bin/a pid=3 b pid=480 old_pid=481"),
            Some(KernelEvent::Exec { file: b"/bin/a pid=3 b", tid: 480, old_tid: 481 })
        );
        assert_eq!(
            parse("sched_process_exit", "comm=sh pid=495 prio=120 group_dead=true"),
            Some(KernelEvent::Exit { task: named("sh", 495), group_dead: Some(1) })
        );
        assert_eq!(
            parse("sched_process_exit", "comm=sh pid=495 prio=120"),
            Some(KernelEvent::Exit { task: named("sh", 495), group_dead: None })
        );
        assert_eq!(
            parse("task_rename", "pid=9 oldcomm=a b newcomm=\"x\\ oom_score_adj=0"),
            Some(KernelEvent::Rename { tid: 9, name: b"\"x\\" })
        );
        assert_eq!(
            parse("task_newtask", "pid=9524 comm=bash clone_flags=1210000 oom_score_adj=0"),
            Some(KernelEvent::NewTask { child: named("bash", 9524), thread: true })
        );
    }

    #[test]
    fn pages_and_blocks() {
        assert_eq!(
            parse(
                "mm_page_alloc",
                "page=000000007e85f040 pfn=0x1941ac order=2 migratetype=2 gfp_flags=GFP_USER|__GFP_COMP"
            ),
            Some(KernelEvent::PageAlloc {
                pfn: Some(0x1941ac),
                order: 2,
                migratetype: Some(2),
                gfp_flags: Gfp::Names(b"GFP_USER|__GFP_COMP")
            })
        );
        assert_eq!(
            parse("mm_page_alloc", "page=          (null) pfn=0 order=9 migratetype=-1 gfp_flags=none"),
            Some(KernelEvent::PageAlloc { pfn: None, order: 9, migratetype: None, gfp_flags: Gfp::Names(b"none") })
        );
        assert_eq!(
            parse("block_rq_issue", "254,3 RA 16384 () 18278984 + 32 be,0,4 [s[h]"),
            Some(KernelEvent::BlockIssue {
                dev: 254 << 20 | 3,
                rwbs: b"RA",
                bytes: 16384,
                sector: 18_278_984,
                comm: b"s[h"
            })
        );
        assert_eq!(
            parse("block_rq_complete", "8,0 W (2a 00) 8 + 2 [-5]"),
            Some(KernelEvent::BlockComplete { dev: 8 << 20, rwbs: b"W", bytes: 1024, sector: 8, error: -5 })
        );
    }
}

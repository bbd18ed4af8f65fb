//! What must hold of every row of the event table.

use super::*;

#[test]
fn every_row_is_sound() {
    for (i, e) in EVENTS.iter().enumerate() {
        assert_eq!(event_kind(e.kind).name, e.name);
        assert_eq!(Kind::from_number(e.kind as u16), Some(e.kind));
        assert!(EVENTS[..i].iter().all(|o| o.name != e.name && o.kind < e.kind));
        for (j, c) in e.columns.iter().enumerate() {
            assert!(e.columns[..j].iter().all(|o| o.id < c.id && o.name != c.name), "{}.{}", e.name, c.name);
            assert!(!c.doc.trim().is_empty(), "{}.{}", e.name, c.name);
            let sources = match c.shape {
                Shape::Follows(id) => vec![id],
                Shape::Recalls(a, b) => vec![a, b],
                _ => vec![],
            };
            // No column depends on itself, over however many others.
            assert!(sources.iter().all(|&id| id == 0 || id > CPU && id != c.id));
            assert!(sources.iter().all(|&id| id == 0 || e.columns.iter().any(|o| o.id == id)));
        }
    }
}

/// Files depend on these numbers. A change here breaks every recording ever made.
#[test]
fn kind_numbers_never_change() {
    let numbers: Vec<_> = EVENTS.iter().map(|e| (e.kind as u16, e.name)).collect();
    assert_eq!(
        numbers,
        [
            (1, "sched_switch"),
            (2, "sched_waking"),
            (3, "sched_wakeup"),
            (4, "sched_wakeup_new"),
            (5, "sched_process_fork"),
            (6, "sched_process_exec"),
            (7, "sched_process_exit"),
            (8, "mm_page_alloc"),
            (9, "call"),
            (10, "task_name"),
            (11, "process"),
            (12, "loss"),
            (13, "clock"),
            (14, "system"),
            (15, "block_rq_issue"),
            (16, "block_rq_complete"),
            (17, "irq"),
            (18, "softirq"),
            (19, "page_fault_user"),
            (20, "direct_reclaim"),
            (21, "oom_kill"),
            (22, "task_affinity"),
            (23, "cpu_frequency"),
            (24, "tcp_retransmit"),
            (25, "socket"),
            (26, "collective"),
            (27, "range"),
            (28, "mark"),
            (29, "mapping"),
            (30, "process_cgroup"),
            (31, "process_sample"),
            (32, "cgroup_sample"),
            (33, "pressure"),
            (34, "gpu_sample"),
            (64, "off_cpu"),
            (65, "aggregate"),
            (66, "system_usage"),
            (67, "stack_frame"),
            (68, "stack"),
            (69, "annotation"),
            (70, "other_event"),
            (71, "device_activity"),
            (72, "span"),
            (73, "correlation"),
        ]
    );
}

#[test]
fn rows_round_trip() {
    let call = Call {
        task: TaskId(3),
        func: FuncId(7),
        dur_ns: Some(12),
        end: END_RETURNED,
        result: Some(-2),
        ptr: Some(0x7f00),
        ptr2: None,
        bytes: Some(4096),
        copy: Some(1),
        stream: Some(2),
        device: Some(0),
    };
    let row = call.row(1, 0);
    assert_eq!(row.len(), Call::WIDTH);
    assert_eq!(Call::gather(|i| row[i]), call);
    assert_eq!(Body::gather(Kind::Call, |i| row[i]), Body::Call(call));
}

#[test]
fn renumbering_reaches_what_is_known_and_nothing_else() {
    let name = StrId(4);
    let event = Body::Process(Process { task: TaskId(3), parent_pid: None, exe: Some(name), args: None, followed: 1 });
    let other = event.renumbered(|column, word| match column.unit {
        Unit::Task => word + 10,
        Unit::Str => word + 20,
        _ => word,
    });
    let expected = Process { task: TaskId(13), parent_pid: None, exe: Some(StrId(24)), args: None, followed: 1 };
    assert_eq!(other, Body::Process(expected));
}

use ingero_format::catalog::{Body, Exit, NULL};

use super::open::STRIP_ROWS;
use super::*;
use crate::fixture::Fixture;

#[test]
fn blocks_that_cannot_name_a_task_stay_unread() {
    let mut f = Fixture::with_rows(4);
    let tasks: Vec<_> = (1..=10).map(|i| f.task(i, i)).collect();
    for i in 0..40usize {
        f.push(1000 + i as u64, 0, Exit { task: tasks[i / 4], group_dead: None });
    }
    let trace = f.finish();
    let mut wanted = vec![false; trace.tasks().len()];
    wanted[tasks[3].index()] = true;
    let seen: Vec<Event> = Merge::new(&trace).naming(&wanted).collect();
    assert_eq!(seen.iter().map(|e| e.ts_ns).collect::<Vec<_>>(), [1012, 1013, 1014, 1015]);
    assert_eq!(Merge::new(&trace).naming(&[]).count(), 0);
    let mut rows = Merge::rows(&trace, |_| true).columns(&[]);
    let row = rows.next_row().unwrap();
    assert_eq!((row.ts_ns, row.word(2)), (1000, None));
}

#[test]
fn blocks_that_overlap_beyond_the_cap_are_named_and_the_others_read() {
    let mut f = Fixture::with_rows(100);
    let task = f.task(5, 5);
    for i in 0..1000u64 {
        // Each block spans the whole time.
        f.push(1000 + i % 100 * 50 + i / 100, 0, Exit { task, group_dead: Some(i * 7919 % 5000) });
    }
    let trace = f.finish();
    let mut merge = Merge::new(&trace);
    assert_eq!((merge.by_ref().count(), merge.held_bytes), (1000, 0));
    let mut merge = Merge::new(&trace);
    merge.most_bytes = 2000;
    let read = merge.by_ref().count();
    assert!(read < 1000 && read + 100 * merge.lost().len() == 1000, "{read}");
    let said = merge.lost()[0].error.to_string();
    assert!(said.starts_with("block ") && said.contains("more than the 2000 that are kept"), "{said}");
}

#[test]
fn rows_outside_of_what_their_block_says_are_left_out_and_the_others_stay_in_order() {
    let mut f = Fixture::with_rows(10);
    let task = f.task(5, 5);
    for i in 0..30u64 {
        f.push(1000 + i, 0, Exit { task, group_dead: None });
    }
    let bytes = f.into_bytes();
    let place = |ts_min: u64| {
        let header = [ts_min.to_le_bytes(), (ts_min + 9).to_le_bytes()].concat();
        bytes.windows(16).position(|w| w == header).unwrap() - 32
    };
    let opened = |at: usize, ts_min: u64, ts_max: u64| {
        // Without its index the file is read by the headers before the blocks.
        let mut bytes = bytes[..place(1020) + 400].to_vec();
        bytes[at + 32..at + 40].copy_from_slice(&ts_min.to_le_bytes());
        bytes[at + 40..at + 48].copy_from_slice(&ts_max.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[at..at + 52]).to_le_bytes();
        bytes[at + 52..at + 56].copy_from_slice(&crc);
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        Trace::from_file(file, "misdated.igt".into()).unwrap()
    };
    // The second block claims to begin late, or to end early.
    for (ts_min, ts_max) in [(1011, 1019), (5000, 6000), (1010, 1018), (0, 1009)] {
        let trace = opened(place(1010), ts_min, ts_max);
        assert!(trace.blocks().len() >= 2, "{:?}", trace.blocks());
        let mut merge = Merge::new(&trace);
        let times: Vec<u64> = merge.by_ref().map(|e| e.ts_ns).collect();
        assert!(times.len() >= 10 && times.is_sorted(), "{times:?}");
        assert!(!times.iter().any(|t| (1010..1020).contains(t)), "{times:?}");
        let said = merge.lost()[0].error.to_string();
        let wanted = format!("its rows are from 1010 to 1019, its header says {ts_min} to {ts_max}");
        assert!(merge.lost().len() == 1 && said.contains(&wanted), "{said}");
    }
    // A header that reaches further is none that misdates.
    let trace = opened(place(1010), 1001, 4000);
    assert!(Merge::new(&trace).lost().is_empty() && Merge::new(&trace).count() >= 20);
}

#[test]
fn a_range_holds_what_lies_in_it_and_nothing_else() {
    let mut f = Fixture::with_rows(50);
    let task = f.task(5, 5);
    // Blocks with rows in order, and out of it.
    for i in 0..400u64 {
        f.push(1000 + i * 37 % 401, (i % 3) as u32, Exit { task, group_dead: Some(i) });
    }
    let trace = f.finish();
    let all: Vec<Event> = Merge::new(&trace).collect();
    for (from, to) in [(0, 1), (1000, 1001), (1100, 1300), (1399, 5000), (1300, 1200), (0, u64::MAX)] {
        let expected: Vec<Event> = all.iter().filter(|e| (from..to).contains(&e.ts_ns)).copied().collect();
        assert_eq!(Merge::new(&trace).within(from, to).collect::<Vec<_>>(), expected, "{from}..{to}");
    }
}

#[test]
fn words_are_those_of_their_rows_however_many_are_laid_out_at_a_time() {
    let mut f = Fixture::with_rows(3 * STRIP_ROWS + 5);
    let task = f.task(5, 5);
    let rows = 10 * STRIP_ROWS as u64;
    // In order and out of it, columns whose words differ and such whose do not, some that are unknown.
    let at = |i: u64| 1000 + if i < rows / 2 { i } else { rows / 2 + i * 37 % (rows / 2) };
    for i in 0..rows {
        f.push(at(i), (i % 2) as u32, Exit { task, group_dead: (i % 7 > 0).then_some(i) });
    }
    let trace = f.finish();
    let mut merge = Merge::new(&trace).columns(&[2]);
    let mut without = 0;
    while let Some((kind, words)) = merge.next_words() {
        assert_eq!((kind, words.get(2..)), (Kind::Exit, Some(&[u64::from(task.0), NULL][..])));
        without += 1;
    }
    assert_eq!(without, rows);
    let seen: Vec<Event> = Merge::new(&trace).collect();
    assert_eq!(seen.len() as u64, rows);
    for event in seen {
        let Body::Exit(e) = event.body else { panic!("{event:?}") };
        let i = (0..rows)
            .find(|&i| at(i) == event.ts_ns && (i % 2) as u32 == event.cpu && (i % 7 > 0).then_some(i) == e.group_dead);
        assert!(i.is_some() && e.task == task, "{event:?}");
    }
}

#[test]
fn events_come_in_time_order_whatever_their_blocks() {
    let mut f = Fixture::with_rows(7);
    let task = f.task(5, 5);
    for i in 0..200u64 {
        let ts = 1000 + i * 37 % 211;
        f.push(ts, (i % 3) as u32, Exit { task, group_dead: Some(i) });
    }
    let trace = f.finish();
    let mut merge = Merge::new(&trace);
    let seen: Vec<Event> = merge.by_ref().collect();
    assert_eq!(seen.len(), 200);
    assert!(seen.is_sorted_by_key(|e| e.ts_ns));
    assert!(merge.lost().is_empty());
}

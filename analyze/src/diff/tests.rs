use super::*;
use ingero_format::catalog::{Call, TaskId};
use ingero_replay::Window;
use ingero_replay::fixture::{Fixture, returned};

const MS: u64 = 1_000_000;

/// A launch each 20 ms; between them the main thread runs for this long and sleeps otherwise.
fn run(pid: u32, busy_ms: u64, period_ms: u64) -> ingero_format::Trace {
    fixture(pid, None, busy_ms, period_ms).finish()
}

fn fixture(pid: u32, name: Option<&str>, busy_ms: u64, period_ms: u64) -> Fixture {
    let mut f = Fixture::new();
    runs(&mut f, (0, pid), name, busy_ms, period_ms);
    f
}

fn runs(f: &mut Fixture, (cpu, pid): (u32, u32), name: Option<&str>, busy_ms: u64, period_ms: u64) {
    let main = f.task(pid, pid);
    if let Some(name) = name {
        let name = f.writer().string(name);
        f.push(0, 0, ingero_format::catalog::Name { task: main, name, source: 0 });
    }
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let sync = f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync);
    f.switch(0, cpu, TaskId(0), 0, main);
    for i in 0..20 {
        let at = MS + i * period_ms * MS;
        f.call(at, cpu, main, launch, 10_000);
        f.call(at + 20_000, cpu, main, sync, (period_ms - busy_ms) * MS);
    }
    f.switch(900 * MS, cpu, main, 1, TaskId(0));
}

fn diff(a: &ingero_format::Trace, b: &ingero_format::Trace) -> Diff {
    Diff::new(&Analysis::new(a, Window::whole(a)), &Analysis::new(b, Window::whole(b)))
}

#[test]
fn a_fix_is_better_its_undoing_worse_and_the_same_run_the_same() {
    let (slow, fast) = (run(10, 18, 20), run(77, 1, 3));
    let d = diff(&slow, &fast);
    assert_eq!(d.outcome, Outcome::Better);
    assert!(d.verdict.starts_with("better: GPU fed "), "{}", d.verdict);
    // Matched by role, though the ids differ.
    assert_eq!(d.causes.len(), 1, "{:?}", d.causes);
    assert!(d.causes[0].before_share > 0.8 && d.causes[0].after_share < 0.4, "{:?}", d.causes);
    assert_eq!(d.ops.len(), 2);
    assert!(d.ops.iter().all(|op| op.before.is_some() && op.after.is_some()));
    assert_eq!(diff(&fast, &slow).outcome, Outcome::Worse);
    let same = diff(&slow, &slow);
    assert_eq!(same.outcome, Outcome::Same);
    assert!(same.verdict.starts_with("no difference"), "{}", same.verdict);
}

/// What is left of a cause is told, however little; nothing is told as nothing.
#[test]
fn a_cause_that_is_hardly_there_is_not_told_as_gone() {
    let gaps_of = |gap_ns: u64| {
        let mut f = Fixture::new();
        let main = f.task(10, 10);
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        let sync = f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync);
        f.switch(0, 0, TaskId(0), 0, main);
        for i in 0..20 {
            let at = MS + i * 20 * MS;
            f.call(at, 0, main, launch, 10_000);
            f.call(at + 20_000, 0, main, sync, 20 * MS - 20_000 - gap_ns);
        }
        f.switch(900 * MS, 0, main, 1, TaskId(0));
        f.finish()
    };
    let (slow, hardly, none) = (gaps_of(16 * MS), gaps_of(90_000), gaps_of(20_000));
    let row = |before: &ingero_format::Trace, after: &ingero_format::Trace| {
        let d = diff(before, after);
        let text = text(&d, false, 100);
        let row = text.lines().find(|l| l.starts_with("busy-main")).unwrap();
        let row = row.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
        (row, d.verdict.rsplit("; ").next().unwrap().to_owned(), markdown(&d))
    };
    let (cells, verdict, pasted) = row(&slow, &hardly);
    assert_eq!(cells, "304 ms (79 %) less than 1 %");
    assert_eq!(verdict, "busy-main took less than 1 % of the time after 79 % before");
    assert!(pasted.contains("| 304 ms (79 %) | less than 1 % |"), "{pasted}");
    let (cells, verdict, _) = row(&slow, &none);
    assert_eq!((cells.as_str(), verdict.as_str()), ("304 ms (79 %) -", "busy-main is gone (79 % of the time before)"));
    // Of what is small in both there is no row.
    assert!(diff(&hardly, &hardly).causes.is_empty());
}

/// Twenty steps of launches, or of a graph in their place, each with a wait for the device.
fn steps(launches: u64, symbol: &str, layer: Layer, period_ns: u64) -> ingero_format::Trace {
    let mut f = Fixture::new();
    let main = f.task(10, 10);
    let launch = f.func(symbol, layer, Class::Launch);
    let sync = f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync);
    f.switch(0, 0, TaskId(0), 0, main);
    for step in 0..20 {
        let at = MS + step * period_ns;
        (0..launches).for_each(|i| f.call(at + i * 6_000, 0, main, launch, 5_000));
        f.call(at + launches * 6_000, 0, main, sync, period_ns - launches * 6_000 - 20_000);
    }
    f.switch(900 * MS, 0, main, 1, TaskId(0));
    f.finish()
}

#[test]
fn a_graph_in_place_of_launches_is_judged_by_what_a_step_takes() {
    let eager = steps(300, "cudaLaunchKernel", Layer::Runtime, 2 * MS);
    let graph = steps(1, "cudaGraphLaunch", Layer::Graph, MS);
    let d = diff(&eager, &graph);
    // A submission takes far longer, a step half as long.
    assert!(d.after.feed.ns_per_submission > d.before.feed.ns_per_submission, "{d:?}");
    assert_eq!(d.outcome, Outcome::Better, "{}", d.verdict);
    assert!(d.verdict.contains("for a wait for the device after 2.0"), "{}", d.verdict);
    assert_eq!(diff(&graph, &eager).outcome, Outcome::Worse);
    assert!(diff(&graph, &graph).verdict.contains("for a submission"));
}

/// Two roles beside each other, each with so long a busy part of each period.
fn two_roles(train: (u64, u64), eval: (u64, u64)) -> ingero_format::Trace {
    let mut f = Fixture::new();
    runs(&mut f, (0, 10), Some("train"), train.0, train.1);
    runs(&mut f, (1, 20), Some("eval"), eval.0, eval.1);
    f.finish()
}

#[test]
fn each_role_has_its_own_verdict_and_together_they_may_be_mixed() {
    let (slow, fast) = ((18, 20), (1, 3));
    let of = |before: ((u64, u64), (u64, u64)), after: ((u64, u64), (u64, u64))| {
        diff(&two_roles(before.0, before.1), &two_roles(after.0, after.1))
    };
    let mixed = of((slow, fast), (fast, slow));
    assert_eq!(mixed.outcome, Outcome::Mixed);
    assert_eq!(mixed.verdict, "mixed: eval worse, train better");
    let outcomes = |d: &Diff| d.roles.iter().map(|r| (r.process.clone(), r.outcome)).collect::<Vec<_>>();
    assert_eq!(outcomes(&mixed), [("eval".into(), Outcome::Worse), ("train".into(), Outcome::Better)]);
    // What each lost is its own: one cause each, the opposite of the other's.
    let causes: Vec<_> = mixed.causes.iter().map(|c| (c.process.as_str(), c.before_share > c.after_share)).collect();
    assert!(mixed.causes.iter().all(|c| c.kind == "busy-main"), "{:?}", mixed.causes);
    assert!(causes.contains(&("train", true)) && causes.contains(&("eval", false)), "{causes:?}");
    // Their verdicts follow, and the JSON says the same.
    let text = text(&mixed, false, 100);
    assert!(text.lines().any(|l| l.starts_with("eval: worse: GPU fed ")), "{text}");
    assert!(text.lines().any(|l| l.starts_with("train: better: GPU fed ")), "{text}");
    let json: serde_json::Value = serde_json::from_str(&mixed.json().unwrap()).unwrap();
    assert_eq!((&json["outcome"], &json["roles"][0]["outcome"]), (&"mixed".into(), &"worse".into()));
    // One that is better decides where the other is the same.
    let better = of((slow, slow), (fast, slow));
    assert_eq!(
        (better.outcome, better.verdict.as_str()),
        (Outcome::Better, "better: eval no difference, train better")
    );
    assert_eq!(of((slow, fast), (slow, fast)).outcome, Outcome::Same);
}

/// A source that does not tell throttling shows it as something else: whoever compares it is told so.
#[test]
fn each_side_says_what_it_cannot_show() {
    let quota = |tells: bool| {
        let mut f = fixture(10, None, 18, 20);
        if tells {
            let (other, idle) = (f.task(50, 50), TaskId(0));
            let out = ingero_format::catalog::Switch {
                prev: other,
                prev_state: 1,
                prev_prio: None,
                next: idle,
                next_prio: None,
                syscall: None,
                throttled: Some(0),
            };
            f.switch(10 * MS, 3, idle, 0, other);
            f.push(11 * MS, 3, out);
        }
        f.finish()
    };
    let d = diff(&quota(false), &quota(true));
    let told = |side: &Side| side.caveats.iter().any(|c| c.contains("when a CPU quota held a thread back"));
    assert_eq!((told(&d.before), told(&d.after)), (true, false), "{d:?}");
    let text = text(&d, false, 100);
    let notes = text.lines().filter(|l| l.contains("when a CPU quota")).count();
    assert_eq!(notes, 1, "{text}");
}

fn named(pid: u32, name: &str, busy_ms: u64, period_ms: u64) -> ingero_format::Trace {
    fixture(pid, Some(name), busy_ms, period_ms).finish()
}

#[test]
fn strangers_are_not_compared() {
    let (loader, stranger) = (named(10, "python3", 18, 20), named(77, "線程|x", 1, 3));
    let d = diff(&loader, &stranger);
    assert_eq!((d.outcome, d.roles.len(), d.causes.len()), (Outcome::Unknown, 0, 0), "{d:?}");
    assert!(d.verdict.starts_with("nothing can be compared: no process of one name"), "{}", d.verdict);
    assert!(d.verdict.ends_with("before it is python3, after 線程|x"), "{}", d.verdict);
    // The same function of both stands there twice, and whose it is.
    for width in [60, 72, 100] {
        let text = text(&d, false, width);
        for name in ["python3", "線程|x"] {
            let rows = text.lines().filter(|l| l.contains("cudaLaunchKernel") && l.contains(name));
            assert_eq!(rows.count(), 1, "{text}");
        }
        assert!(text.lines().all(|l| crate::report::columns_of(l) <= width), "{text}");
    }
    let pasted = markdown(&d);
    assert!(pasted.starts_with("**nothing can be compared"), "{pasted}");
    assert!(pasted.contains("\n| python3 | cudaLaunchKernel | 20 |"), "{pasted}");
    assert!(pasted.contains("\n| 線程\\|x | cudaLaunchKernel | - |"), "{pasted}");
    // One role in both: it is compared, and nothing else.
    let same = diff(&loader, &named(99, "python3", 1, 3));
    assert_eq!((same.outcome, same.roles.len()), (Outcome::Better, 1));
    assert!(markdown(&same).contains("### Time lost"), "{}", markdown(&same));
}

#[test]
fn without_a_gpu_nothing_is_claimed() {
    let mut f = Fixture::new();
    let task = f.task(1, 1);
    f.switch(0, 0, TaskId(0), 0, task);
    let (empty, run) = (f.finish(), run(10, 18, 20));
    let d = diff(&run, &empty);
    assert_eq!(d.outcome, Outcome::Unknown);
    assert!(d.verdict.starts_with("nothing can be compared"), "{}", d.verdict);
    for width in 60..=100 {
        assert!(text(&d, false, width).lines().all(|l| l.chars().count() <= width), "{}", text(&d, false, width));
    }
}

/// A thread that launches each millisecond for 4 s and is busy for so much of it, while its GPU says once a second how busy it was itself.
fn beside_a_gpu(busy_us: u64, percent: u64) -> ingero_format::Trace {
    use ingero_format::catalog::{GpuSample, NO_CPU};
    let mut f = Fixture::new();
    let main = f.task(10, 10);
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let sync = f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync);
    f.switch(0, 0, TaskId(0), 0, main);
    for i in 0..4_000 {
        // The wait is for another stream: this one has more to do.
        f.push(i * MS, 0, Call { stream: Some(7), ..returned(main, launch, 10_000) });
        let waited = returned(main, sync, MS - 21_000 - busy_us * 1_000);
        f.push(i * MS + 20_000, 0, Call { stream: Some(8), ..waited });
    }
    for at in 0..5 {
        f.push(1_000 * MS * at + 100, NO_CPU, GpuSample { busy_percent: Some(percent), ..GpuSample::default() });
    }
    f.switch(4_001 * MS, 0, main, 1, TaskId(0));
    f.finish()
}

#[test]
fn how_busy_the_gpu_was_by_its_own_count_is_told_beside_how_it_was_fed() {
    let (slow, fast) = (beside_a_gpu(800, 97), beside_a_gpu(100, 98));
    let d = diff(&slow, &fast);
    let busy = |feed: &Feed| feed.busy.map(|b| (b.percent, b.devices, b.idle_ns / (10 * MS)));
    assert_eq!(
        (busy(&d.before.feed), busy(&d.roles[0].after)),
        (Some((97, 1, 11)), Some((98, 1, 7))),
        "{:?} {:?}",
        d.before.feed,
        d.roles[0].after
    );
    // Its work was queued in both: how the host fed it decides nothing.
    assert_eq!(d.outcome, Outcome::Same, "{}", d.verdict);
    assert!(
        d.verdict.ends_with("(and busy 97 %) before, 1.00 ms for a submission after 1.00 ms before"),
        "{}",
        d.verdict
    );
    let json: serde_json::Value = serde_json::from_str(&d.json().unwrap()).unwrap();
    assert_eq!(
        (&json["before"]["busy"]["percent"], &json["roles"][0]["after"]["busy"]["percent"]),
        (&97.into(), &98.into())
    );
    let told = "the GPU was busy 97 % of the time by";
    let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat(text(&d, false, 100)).contains(told) && markdown(&d).contains(told), "{}", text(&d, false, 100));
    // Of one that idled the host's view decides.
    let idle = diff(&beside_a_gpu(800, 20), &beside_a_gpu(100, 40));
    assert_eq!(idle.outcome, Outcome::Better, "{}", idle.verdict);
    assert!(!idle.verdict.contains("busy 20"), "{}", idle.verdict);
}

/// Steps of 200 launches that the device is done with at once.
fn bursts(period_ns: u64) -> ingero_format::Trace {
    let mut f = Fixture::new();
    let main = f.task(10, 10);
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let sync = f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync);
    f.switch(0, 0, TaskId(0), 0, main);
    for step in 0..100 {
        let at = MS + step * (200 * 6_000 + period_ns);
        (0..200).for_each(|i| f.call(at + i * 6_000, 0, main, launch, 5_000));
        f.call(at + 200 * 6_000, 0, main, sync, period_ns - 2_000);
    }
    f.switch(900 * MS, 0, main, 1, TaskId(0));
    f.finish()
}

#[test]
fn a_share_that_is_the_most_that_it_may_have_been_is_told_so_and_decides_nothing() {
    let (tiny, long) = (bursts(5_000), bursts(900_000));
    let d = diff(&tiny, &long);
    assert!(d.before.feed.fed_at_most && !d.after.feed.fed_at_most, "{d:?}");
    assert!(d.verdict.contains(" of the time after at most 83 % before"), "{}", d.verdict);
    let json: serde_json::Value = serde_json::from_str(&d.json().unwrap()).unwrap();
    assert_eq!((&json["before"]["fed_at_most"], &json["after"]["fed_at_most"]), (&true.into(), &false.into()));
    let feed = |fed, at_most| Feed {
        wall_ns: 100,
        gaps_ns: Some(10),
        fed: Some(fed),
        fed_at_most: at_most,
        busy: None,
        submissions: Some(1),
        ns_per_submission: Some(100),
        graphs: None,
        ns_per_wait: None,
        lost_ns: 0,
    };
    assert_eq!(outcome(&feed(0.5, false), &feed(0.9, false)), Outcome::Better);
    assert_eq!(outcome(&feed(0.5, false), &feed(0.9, true)), Outcome::Same);
    assert_eq!(outcome(&feed(0.9, true), &feed(0.5, false)), Outcome::Same);
}

/// Two hosts in one recording, of which the second keeps a sample or all; what the first one's trainer does, and the second one's.
fn two_hosts(sampled: bool, train: (u64, u64), other: &str) -> ingero_format::Trace {
    let mut f = Fixture::new();
    for (n, base, is_sampled) in [(0, ["0", "0"], false), (1, ["64", "1000"], sampled)] {
        f.writer().set_meta(&format!("host.{n}.host"), &format!("node-{n}"));
        f.writer().set_meta(&format!("host.{n}.cpu_base"), base[0]);
        f.writer().set_meta(&format!("host.{n}.pid_base"), base[1]);
        f.writer().set_meta(&format!("host.{n}.sampled"), &is_sampled.to_string());
    }
    runs(&mut f, (0, 10), Some("train"), train.0, train.1);
    runs(&mut f, (64, 1010), Some(other), 18, 20);
    f.finish()
}

#[test]
fn of_several_hosts_those_are_compared_whose_sources_kept_all() {
    let (slow, fast) = ((18, 20), (1, 3));
    let d = diff(&two_hosts(true, slow, "serve"), &two_hosts(true, fast, "serve"));
    assert_eq!((d.outcome, d.roles.len(), d.roles[0].process.as_str()), (Outcome::Better, 1, "train"), "{d:?}");
    assert!(d.before.alone.is_empty() && d.before.sampled_roles == ["serve"], "{d:?}");
    assert!(
        d.verdict.contains("; not compared, since its source kept a sample before: serve; not compared"),
        "{}",
        d.verdict
    );
    assert!(d.causes.iter().all(|c| c.process == "train"), "{:?}", d.causes);
    // As its own recording says it.
    let [own, own_after] = [slow, fast].map(|(busy, period)| named(10, "train", busy, period));
    let own = diff(&own, &own_after);
    assert_eq!((&d.roles[0].before, &d.roles[0].after), (&own.roles[0].before, &own.roles[0].after));
    // A namesake on the other host counts for nothing.
    let d = diff(&two_hosts(true, slow, "train"), &two_hosts(true, fast, "train"));
    assert_eq!((&d.roles[0].before, &d.roles[0].after), (&own.roles[0].before, &own.roles[0].after));
    // Where all that feeds a GPU is a sample in one of the two, nothing is compared.
    let d = diff(&two_hosts(false, slow, "serve"), &two_hosts(true, fast, "serve"));
    assert_eq!(d.roles.iter().map(|r| r.process.as_str()).collect::<Vec<_>>(), ["train"]);
    assert!(d.before.alone.is_empty() && d.verdict.ends_with("kept a sample after: serve"), "{}", d.verdict);
}

#[test]
fn no_row_of_causes_is_wider_than_asked_for() {
    let mut d = diff(&run(10, 18, 20), &run(77, 1, 3));
    let cause = &mut d.causes[0];
    (cause.before_ns, cause.before_share, cause.before_at_most) = (36_000_000 * MS, 0.997, true);
    (cause.after_ns, cause.after_share, cause.after_at_most) = (999 * MS, 1.0, true);
    for width in [60, 78, 80, 100] {
        let text = text(&d, false, width);
        assert!(text.contains("up to 36000 s (>99 %)") && text.contains("up to 999 ms (100 %)"), "{text}");
        assert!(text.lines().all(|l| crate::report::columns_of(l) <= width), "{width}: {text}");
    }
}

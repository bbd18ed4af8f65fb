//! What is missing from a trace: lost while recording, or unreadable now.

use ingero_format::Trace;
use ingero_format::catalog::Kind;
use ingero_replay::{CUT_OFF, Hosts, Lost, LostBlock, UNKNOWN_KIND, Window};

/// Events of one kind, lost for one cause, of one host where the recording is of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// What lost them.
    pub probe: String,
    /// Why.
    pub cause: String,
    /// The host that they are of, in a recording of several; none where they may be of any.
    pub host: Option<usize>,
    /// How many, as far as known.
    pub count: u64,
    /// Whether some of it could not be counted.
    pub uncounted: bool,
    /// First instant of any such loss.
    pub from_ns: u64,
    /// Last instant of any such loss.
    pub to_ns: u64,
    /// Whether gaps and states of threads rest on such events: then nothing is claimed of that stretch. Other figures of it are
    /// the least that there was.
    pub unclaimed: bool,
}

/// Everything that is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    /// By probe and cause.
    pub list: Vec<Loss>,
    /// Each stretch of which events are missing.
    pub parts: Vec<Lost>,
}

impl Losses {
    /// What is missing from a trace of which these blocks cannot be read.
    #[must_use]
    pub fn of(trace: &Trace, unread: &[LostBlock]) -> Self {
        Self::from_parts(ingero_replay::lost(trace, unread))
    }

    pub(crate) fn from_parts(parts: Vec<Lost>) -> Self {
        let mut this = Self { list: Vec::new(), parts };
        for lost in &this.parts {
            let known =
                this.list.iter_mut().find(|l| l.probe == lost.what && l.cause == lost.cause && l.host == lost.host);
            let (count, uncounted) = (lost.count.unwrap_or(0), lost.count.is_none());
            match known {
                Some(l) => {
                    l.count = l.count.saturating_add(count);
                    l.uncounted |= uncounted;
                    l.from_ns = l.from_ns.min(lost.from_ns);
                    l.to_ns = l.to_ns.max(lost.to_ns);
                    l.unclaimed |= lost.hides;
                }
                None => this.list.push(Loss {
                    probe: lost.what.clone(),
                    cause: lost.cause.to_owned(),
                    host: lost.host,
                    count,
                    uncounted,
                    from_ns: lost.from_ns,
                    to_ns: lost.to_ns,
                    unclaimed: lost.hides,
                }),
            }
        }
        this
    }

    /// The stretches within a range in which calls or states of threads are hidden, by time.
    #[must_use]
    pub fn hidden(&self, from_ns: u64, to_ns: u64) -> Vec<&Lost> {
        let mut out: Vec<_> = self.parts.iter().filter(|l| l.hides && l.is_within(from_ns, to_ns)).collect();
        out.sort_by_key(|l| (l.from_ns, l.to_ns));
        out
    }

    /// Whether who ran and who waited is hidden in all of a range, which ends with `to_ns`, on this host: of a host among several, in
    /// its own recording's part of the range.
    #[must_use]
    pub fn hides_states(&self, trace: &Trace, host: usize, from_ns: u64, to_ns: u64) -> bool {
        let hidden = self.parts.iter().filter(|l| l.hides_states(trace) && l.concerns(host));
        covers(hidden.map(|l| (l.from_ns, l.to_ns)), &Hosts::new(trace), host, (from_ns, to_ns))
    }

    /// Events that are missing, as far as they were counted; none where something is missing and nothing was counted.
    #[must_use]
    pub fn events(&self) -> Option<u64> {
        let counted = self.list.iter().fold(0, |sum: u64, l| sum.saturating_add(l.count));
        (counted > 0 || self.list.iter().all(|l| !l.uncounted)).then_some(counted)
    }

    /// Whether more than [`events`](Self::events) may be missing.
    #[must_use]
    pub fn uncounted(&self) -> bool {
        self.list.iter().any(|l| l.uncounted)
    }

    /// Whether events of a kind, or of nobody knows which, are missing within a range, of this host or, without one, of any: what
    /// is counted of them is the least that there was.
    pub(crate) fn lacks(&self, trace: &Trace, kind: Kind, window: &Window, host: Option<usize>) -> bool {
        let name = trace.kind_name(kind as u16);
        let of_kind = |probe: &str| probe == name || !trace.all_kinds().iter().any(|k| k.name == probe);
        let within = |l: &&Lost| l.count != Some(0) && l.is_within(window.from_ns, window.to_ns);
        let concerned = self.parts.iter().filter(within).filter(|l| host.is_none_or(|host| l.concerns(host)));
        // What stood where not even the head of a block can be read may have been of any kind; it has its stretch like all else.
        concerned.into_iter().any(|l| of_kind(&l.what))
    }

    pub(crate) fn sentences(&self, trace: &Trace, trace_start_ns: u64) -> Vec<String> {
        let hosts = Hosts::new(trace);
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let s = |ns: u64| ns.saturating_sub(trace_start_ns) as f64 / 1e9;
        let how_many = |l: &Loss| match (l.count, l.uncounted) {
            (0, true) => "an unknown number of".to_owned(),
            (n, true) => format!("at least {n}"),
            (n, false) => n.to_string(),
        };
        let sentence = |l: &Loss| {
            format!(
                "{} {} events{} were lost ({}) between {:.3} s and {:.3} s: {}",
                how_many(l),
                l.probe,
                ingero_replay::of_host(&hosts, l.host),
                l.cause,
                s(l.from_ns),
                s(l.to_ns),
                match l.unclaimed {
                    true => "no claim is made about that stretch",
                    false => "what is counted of them there is the least that there was",
                }
            )
        };
        // That it was cut off is said apart.
        let told = |l: &&Loss| l.cause != CUT_OFF || l.probe != UNKNOWN_KIND;
        self.list.iter().filter(told).map(sentence).collect()
    }
}

/// A moment between two losses is one of them where it is no longer than this, and no more than this part of both, one in so
/// many: blocks that follow one another end and begin with an event, and nothing is known of what lies between.
const APART_NS: u64 = 1_000_000;
const APART: u64 = 100;

/// Stretches of time in which events are lost, as first and last instants; those as one between which nothing is known.
fn joined(lost: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (from, to) in crate::spans::joined(lost.map(|(from, to)| (from, to.saturating_add(1))).collect()) {
        match out.last_mut() {
            Some(last) if from - last.1 <= APART_NS && (from - last.1) * APART <= (to - from) + (last.1 - last.0) => {
                last.1 = to;
            }
            _ => out.push((from, to)),
        }
    }
    out
}

/// Whether losses of a host, as first and last instants, take all of a range that ends with its second instant. Of a host among
/// several, its own recording's part of the range counts.
pub(crate) fn covers(
    lost: impl Iterator<Item = (u64, u64)>,
    hosts: &Hosts,
    host: usize,
    (from_ns, to_ns): (u64, u64),
) -> bool {
    let (own_from_ns, own_to_ns) = hosts.get(host).map_or((0, u64::MAX), |host| host.span_ns);
    let (from_ns, to_ns) = (from_ns.max(own_from_ns), to_ns.min(own_to_ns));
    joined(lost).iter().any(|&(from, to)| from <= from_ns && to >= to_ns)
}

/// Stretches of time in which calls or states of threads are missing, of each host: of what lies in them nothing is claimed.
/// A page fault or a disk request that is missing leaves the rest as it is.
pub(crate) struct Lossy {
    hosts: Hosts,
    /// By host, joined.
    stretches: Vec<Vec<(u64, u64)>>,
}

impl Lossy {
    /// Those of a trace of which this is missing.
    pub(crate) fn of(trace: &Trace, lost: &[Lost]) -> Self {
        let hosts = Hosts::new(trace);
        let of_host = |host: usize| {
            let hidden = lost.iter().filter(|l| l.hides && l.concerns(host));
            joined(hidden.map(|l| (l.from_ns, l.to_ns)))
        };
        Self { stretches: (0..hosts.count()).map(of_host).collect(), hosts }
    }

    /// Those of the host that a process is of, by its id.
    pub(crate) fn of_pid(&self, pid: u32) -> &[(u64, u64)] {
        self.stretches.get(self.hosts.of_pid(pid)).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use ingero_format::catalog::{Class, NO_CPU, TaskId};
    use ingero_replay::Window;
    use ingero_replay::fixture::Fixture;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_nobody_counted_is_not_none() {
        let lost = |counts: &[Option<u64>]| {
            let mut f = Fixture::new();
            let probe = f.writer().string("recorder");
            for &count in counts {
                let loss = ingero_format::catalog::Loss { to_ns: 9, probe, cause: 5, count, of_host: None };
                f.push(7, NO_CPU, loss);
            }
            let trace = f.finish();
            let a = crate::Analysis::new(&trace, Window::whole(&trace));
            let json: serde_json::Value = serde_json::from_str(&crate::report::json(&a, &[]).unwrap()).unwrap();
            let text = crate::report::text(&a, &crate::report::Options::default());
            let head = text.lines().find(|l| l.contains(" events, ")).unwrap().rsplit(", ").next().unwrap().to_owned();
            (json["trace"]["lost_events"].as_u64(), head)
        };
        assert_eq!(lost(&[]), (Some(0), "none lost".into()));
        assert_eq!(lost(&[Some(3)]), (Some(3), "3 LOST".into()));
        assert_eq!(lost(&[None]), (None, "an unknown number LOST".into()));
        assert_eq!(lost(&[Some(3), None]), (Some(3), "at least 3 LOST".into()));
    }

    /// Twenty launches, 20 ms apart, and a loss of something while the eleventh gap lasts.
    fn with_loss(probe: &str) -> (Vec<(u64, u64)>, usize, String) {
        let trace = launches(probe, 205, 206);
        let a = crate::Analysis::new(&trace, Window::whole(&trace));
        let text = crate::report::text(&a, &crate::report::Options::default());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let [p] = &a.phases[..] else { panic!("{:?}", a.phases) };
        (p.phase.unclaimed.clone(), p.phase.gaps.len(), text)
    }

    /// The same recording with a loss between two instants, in ms.
    fn launches(probe: &str, from_ms: u64, to_ms: u64) -> ingero_format::Trace {
        use ingero_format::catalog::Layer;
        let mut f = Fixture::new();
        let main = f.task(1, 1);
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        f.switch(0, 0, TaskId(0), 0, main);
        for i in 0..20 {
            f.call(MS + i * 20 * MS, 0, main, launch, 10_000);
        }
        f.switch(900 * MS, 0, main, 1, TaskId(0));
        let probe = f.writer().string(probe);
        let loss = ingero_format::catalog::Loss { to_ns: to_ms * MS, probe, cause: 0, count: Some(5), of_host: None };
        f.push(from_ms * MS, NO_CPU, loss);
        f.finish()
    }

    #[test]
    fn where_all_of_a_phase_is_lost_its_gaps_are_unknown_and_not_none() {
        let (lost, whole) = (launches("sched_switch", 0, 900), launches("page_fault_user", 0, 900));
        let [lost, whole] = [&lost, &whole].map(|trace| crate::Analysis::new(trace, Window::whole(trace)));
        assert_eq!(lost.phases[0].starved_share(), None);
        let options = crate::report::Options::default();
        let text = crate::report::text(&lost, &options).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("nothing can be said of how") && text.contains("gaps between them: unknown"), "{text}");
        assert!(!text.contains("GPU fed") && !text.contains("no cause of lost time"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&crate::report::json(&lost, &[]).unwrap()).unwrap();
        let gaps = json["phases"][0]["gaps"].as_object().unwrap();
        assert!(gaps.values().all(serde_json::Value::is_null), "{gaps:?}");
        let markdown = crate::report::markdown(&lost, &options);
        assert!(markdown.contains("| 20 | unknown |"), "{markdown}");
        let page = crate::html::page(&lost, &options, &mut |_| {}).unwrap();
        assert!(page.contains("causes of lost time cannot be told"));
        assert!(!page.contains("No cause of lost time was found"));
        let diff = crate::diff::Diff::new(&lost, &whole);
        assert!(diff.verdict.contains("lost events in all its time"), "{}", diff.verdict);
    }

    #[test]
    fn where_all_switches_are_lost_no_time_is_zero_but_unknown() {
        let told = |probe: &str| {
            let trace = launches(probe, 0, 900);
            let a = crate::Analysis::new(&trace, Window::whole(&trace));
            let json: serde_json::Value = serde_json::from_str(&crate::report::json(&a, &[]).unwrap()).unwrap();
            let options = crate::report::Options::default();
            let all = crate::report::Options { per_process: true, ..crate::report::Options::default() };
            let words = [
                crate::report::text(&a, &options),
                crate::report::text(&a, &all),
                crate::report::markdown(&a, &options),
            ];
            let page = crate::html::page(&a, &options, &mut |_| {}).unwrap();
            (json["processes"][0].clone(), words.join("\n"), page)
        };
        let (process, words, page) = told("sched_switch");
        for figure in ["context_switches", "on_cpu_ns"] {
            assert!(process[figure].is_null(), "{figure}: {process}");
        }
        assert!(process["off_cpu"].as_object().unwrap().values().all(serde_json::Value::is_null), "{process}");
        let op = &process["ops"][0];
        for figure in ["running_ns", "runnable_ns", "throttled_ns", "blocked_ns"] {
            assert!(op[figure].is_null(), "{figure}: {op}");
        }
        // The calls themselves are there.
        assert_eq!((op["count"].as_u64(), op["sum_ns"].as_u64()), (Some(20), Some(200_000)));
        assert!(
            words.contains("unknown: no context switch can be read") && words.contains("| unknown | unknown |"),
            "{words}"
        );
        assert!(page.contains("cannot be known from this recording") && page.contains("hatched stretches"));
        let on_cpus = "Who was on the CPUs is not known: no context switch can be read.";
        assert!(page.contains(on_cpus));
        let (process, words, page) = told("page_fault_user");
        assert_eq!((process["context_switches"].as_u64(), process["on_cpu_ns"].as_u64()), (Some(1), Some(900_000_000)));
        assert!(!words.contains("no context switch can be read") && !page.contains("hatched stretches"), "{words}");
        assert!(!page.contains(on_cpus) && page.contains("Who was on each CPU"));
    }

    #[test]
    fn where_switches_are_lost_in_part_figures_are_the_least_that_there_was() {
        let told = |probe: &str| {
            let trace = launches(probe, 205, 206);
            let a = crate::Analysis::new(&trace, Window::whole(&trace));
            let options = crate::report::Options::default();
            let all = crate::report::Options { per_process: true, ..crate::report::Options::default() };
            let texts = [
                crate::report::text(&a, &options),
                crate::report::text(&a, &all),
                crate::report::markdown(&a, &options),
                crate::html::page(&a, &options, &mut |_| {}).unwrap(),
            ];
            let json: serde_json::Value = serde_json::from_str(&crate::report::json(&a, &[]).unwrap()).unwrap();
            (json["at_least"].clone(), texts)
        };
        let marks = [
            "\u{2265}884 ms",
            "states      at least, and of what was seen: events were lost",
            "| \u{2265}884 ms | \u{2265}0 |",
            ">\u{2265}884\u{a0}ms</td>",
        ];
        for (probe, states, switches, calls) in [
            ("sched_switch", true, true, false),
            ("sched_waking", true, false, false),
            ("call", false, false, true),
            ("page_fault_user", false, false, false),
        ] {
            let (at_least, texts) = told(probe);
            assert_eq!(
                at_least,
                serde_json::json!({"states": states, "switches": switches, "calls": calls, "page_allocs": false}),
                "{probe}"
            );
            // Switches and times on the CPUs hang on no wake.
            if probe == "sched_waking" {
                let marks = [
                    " 900 ms",
                    "states      off the CPUs at least, and of what was seen: wakes were lost",
                    "| 900 ms | \u{2265}0 | \u{2265}0 | - | 1 |",
                    ">900\u{a0}ms</td>",
                ];
                for (text, mark) in texts.iter().zip(marks) {
                    assert!(text.contains(mark), "{probe}: {mark} is not in {text}");
                }
            }
            if probe == "sched_switch" {
                for (text, mark) in texts.iter().zip(marks) {
                    assert!(text.contains(mark), "{probe}: {mark} is not in {text}");
                }
            }
            let says = |text: &String| ["at least:", "at least,", "\u{2265}"].iter().any(|mark| text.contains(mark));
            let [text, all, markdown, page] = texts.each_ref().map(says);
            let each = states || calls;
            assert_eq!([text, all, markdown, page], [each, each, states, each], "{probe}");
        }
    }

    /// A source that wrote something down is not to blame for what was lost of it.
    #[test]
    fn what_was_lost_is_not_said_to_be_unknown_to_the_source() {
        let said = |probe: &str| {
            let trace = launches(probe, 205, 206);
            crate::Analysis::new(&trace, Window::whole(&trace)).caveats().join("; ")
        };
        let of_source = "the source does not say which CPUs a thread may use";
        assert!(said("page_fault_user").contains(of_source));
        let lost = said("task_affinity");
        assert!(
            lost.contains("which CPUs a thread may use cannot be read from what is left of the recording"),
            "{lost}"
        );
        assert!(!lost.contains(of_source), "{lost}");
    }

    #[test]
    fn that_there_is_no_cause_is_said_of_what_is_known_alone() {
        let said = |probe: &str, from_ms, to_ms| {
            let trace = launches(probe, from_ms, to_ms);
            let a = crate::Analysis::new(&trace, Window::whole(&trace));
            crate::report::nothing::of_causes(&a, &|_| true)
        };
        assert_eq!(said("page_fault_user", 205, 206), "No cause of lost time was found.");
        let partly = "No cause of lost time was found where no events were lost; of the rest nothing can be told.";
        for probe in ["sched_switch", "sched_waking", "call"] {
            assert_eq!(said(probe, 205, 206), partly, "{probe}");
        }
        let nothing = "Events were lost in all phases: causes of lost time cannot be told.";
        assert_eq!(said("sched_switch", 0, 900), nothing);
    }

    #[test]
    fn of_what_is_left_a_share_says_that_it_is() {
        let (_, _, text) = with_loss("sched_switch");
        assert!(text.contains("of the time that is known (events were lost in 20.0 ms)"), "{text}");
        let (_, _, text) = with_loss("page_fault_user");
        assert!(!text.contains("of the time that is known"), "{text}");
    }

    /// Blocks that follow one another leave a moment between the last event of one and the first of the next.
    #[test]
    fn between_two_losses_that_follow_one_another_nothing_is_known() {
        let lost = |cracks_ns: u64| {
            let mut f = Fixture::new();
            let main = f.task(1, 1);
            let launch = f.func("cudaLaunchKernel", ingero_format::catalog::Layer::Runtime, Class::Launch);
            f.switch(0, 0, TaskId(0), 0, main);
            for at in 0..100 {
                f.call(at * 10 * MS, 0, main, launch, 10_000);
            }
            f.switch(1_000 * MS, 0, main, 1, TaskId(0));
            let probe = f.writer().string("sched_switch");
            for (from_ns, to_ns) in [(0, 400 * MS), (400 * MS + cracks_ns, 2_000 * MS)] {
                f.push(
                    from_ns,
                    NO_CPU,
                    ingero_format::catalog::Loss { to_ns, probe, cause: 0, count: Some(9), of_host: None },
                );
            }
            let trace = f.finish();
            let a = crate::Analysis::new(&trace, Window::whole(&trace));
            let unclaimed = a.phases.iter().all(crate::PhaseFigures::is_unclaimed);
            (unclaimed, a.losses.hides_states(&trace, 0, 0, 1_000 * MS), a.knows_states())
        };
        assert_eq!(lost(20_000), (true, true, false));
        assert_eq!(lost(20 * MS), (false, false, true));
    }

    #[test]
    fn nothing_is_claimed_of_a_gap_with_a_loss_in_it() {
        let (unclaimed, gaps, text) = with_loss("sched_switch");
        assert_eq!((unclaimed, gaps), (vec![(201_010_000, 221_000_000)], 18));
        let said = "no claim is made of 20.0 ms of it, where events were lost: 0.201010 s to 0.221000 s";
        assert!(text.contains(said), "{text}");
        // A page fault more or less changes no gap.
        let (unclaimed, gaps, text) = with_loss("page_fault_user");
        assert_eq!((unclaimed, gaps), (Vec::new(), 19));
        assert!(!text.contains("no claim is made"), "{text}");
        assert!(text.contains("is the least that there was"), "{text}");
    }
}

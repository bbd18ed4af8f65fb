//! What is missing from a trace: lost while recording, or unreadable now.

use ingero_format::Trace;
use ingero_format::catalog::{Body, Kind, LOSS_CAUSES};
use ingero_replay::{Merge, Repairs};

/// Events of one kind, lost for one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// What lost them.
    pub probe: String,
    /// Why.
    pub cause: String,
    /// How many, as far as known.
    pub count: u64,
    /// Whether some of it could not be counted.
    pub uncounted: bool,
    /// First instant of any such loss.
    pub from_ns: u64,
    /// Last instant of any such loss.
    pub to_ns: u64,
}

/// Everything that is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    /// By probe and cause.
    pub list: Vec<Loss>,
}

impl Losses {
    pub(crate) fn new(trace: &Trace, repairs: &Repairs) -> Self {
        let mut this = Self::default();
        for event in Merge::of(trace, |k| k == Kind::Loss) {
            let Body::Loss(e) = event.body else { continue };
            let cause = LOSS_CAUSES.iter().find(|(n, _)| *n == e.cause).map_or("unknown cause", |(_, name)| name);
            this.add(trace.string(e.probe), cause, e.count, event.ts_ns, e.to_ns);
        }
        for lost in &repairs.lost_blocks {
            let h = &lost.entry.header;
            this.add(trace.kind_name(h.kind), "damaged file", Some(u64::from(h.rows)), h.ts_min, h.ts_max);
        }
        this
    }

    fn add(&mut self, probe: &str, cause: &str, count: Option<u64>, from_ns: u64, to_ns: u64) {
        let known = self.list.iter_mut().find(|l| l.probe == probe && l.cause == cause);
        let uncounted = count.is_none();
        let count = count.unwrap_or(0);
        match known {
            Some(l) => {
                l.count = l.count.saturating_add(count);
                l.uncounted |= uncounted;
                l.from_ns = l.from_ns.min(from_ns);
                l.to_ns = l.to_ns.max(to_ns);
            }
            None => {
                let (probe, cause) = (probe.to_owned(), cause.to_owned());
                self.list.push(Loss { probe, cause, count, uncounted, from_ns, to_ns });
            }
        }
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

    pub(crate) fn sentences(&self, trace_start_ns: u64) -> Vec<String> {
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let s = |ns: u64| ns.saturating_sub(trace_start_ns) as f64 / 1e9;
        let how_many = |l: &Loss| match (l.count, l.uncounted) {
            (0, true) => "an unknown number of".to_owned(),
            (n, true) => format!("at least {n}"),
            (n, false) => n.to_string(),
        };
        let sentence = |l: &Loss| {
            format!(
                "{} {} events were lost ({}) between {:.3} s and {:.3} s: no claim is made about that stretch",
                how_many(l),
                l.probe,
                l.cause,
                s(l.from_ns),
                s(l.to_ns)
            )
        };
        self.list.iter().map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use ingero_format::catalog::NO_CPU;
    use ingero_replay::Window;
    use ingero_replay::fixture::Fixture;

    #[test]
    fn what_nobody_counted_is_not_none() {
        let lost = |counts: &[Option<u64>]| {
            let mut f = Fixture::new();
            let probe = f.writer().string("recorder");
            for &count in counts {
                let loss = ingero_format::catalog::Loss { to_ns: 9, probe, cause: 5, count };
                f.push(7, NO_CPU, loss);
            }
            let trace = f.finish();
            let a = crate::Analysis::new(&trace, Window::whole(&trace));
            let json: serde_json::Value = serde_json::from_str(&crate::report::json(&a, &[]).unwrap()).unwrap();
            let text = crate::report::text(&a, &[], false, false);
            let head = text.lines().next().unwrap().rsplit(", ").next().unwrap().to_owned();
            (json["trace"]["lost_events"].as_u64(), head)
        };
        assert_eq!(lost(&[]), (Some(0), "none lost".into()));
        assert_eq!(lost(&[Some(3)]), (Some(3), "3 LOST".into()));
        assert_eq!(lost(&[None]), (None, "an unknown number LOST".into()));
        assert_eq!(lost(&[Some(3), None]), (Some(3), "at least 3 LOST".into()));
    }
}

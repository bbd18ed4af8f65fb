//! What GPUs say of themselves: how much of the time something ran on them.
//!
//! What is submitted is queued, so that a GPU may be busy while nobody submits anything; when its work ends is not recorded. Its driver
//! counts it, though, and the recorder asks it once a second (NVML's utilisation: the share of the last sixth of a second to second
//! in which a kernel ran). That is a sample and bounds nothing; where a GPU was busy nearly all the time by many of them, though, what its
//! process did between submissions cost it next to nothing, and to call it lost would be wrong by far. Unless the recording shows that nothing of
//! that process was queued: then somebody else used the GPU, or the samples missed what they do not cover, and what they say is no bound.

use std::collections::BTreeMap;

use ingero_format::catalog::GpuSample;

use crate::report::duration;

/// A sample tells of the time since the one before, and of no more than so much: they are taken once a second, and one may be late.
const TELLS_NS: u64 = 1_500_000_000;
/// Fewer samples than these within a phase say nothing of it: each is of a part of its second.
const SAMPLES: u64 = 3;
/// From so many percent on a GPU has work queued: whoever runs out of it is idle for longer.
const QUEUE_FROM: u64 = 90;
/// A GPU that was so busy, in percent, before a process submitted anything works for another one as well.
const OTHERS_FROM: u64 = 50;
/// A GPU with less memory in use than this works for nobody: a context alone takes several hundred MiB.
const USED_BYTES: u64 = 64 << 20;

/// A sample of a GPU.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at_ns: u64,
    percent: u64,
    is_used: bool,
}

/// The samples of all GPUs, by host and number, in order.
#[derive(Debug, Default)]
pub(crate) struct Devices(BTreeMap<(usize, u64), Vec<Reading>>);

/// How busy the GPU was by its driver's count, which the recorder asked for once a second. It is longer than it was fed where work was
/// queued; from 90 percent on the incidents of the phase count no more, together, than the time in which it was idle or nothing was queued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Busy {
    /// Share of the sampled time in which a kernel ran, percent.
    pub percent: u64,
    /// Samples within the phase.
    pub samples: u64,
    /// GPUs of the host that work for anybody. Which of several is the process's is not known: it is said of the least busy one.
    pub devices: u64,
    /// For so long no kernel ran in the phase, about: the samples stand for the time around them, and what none tells of counts as idle.
    pub idle_ns: u64,
    /// Of so much of the phase the samples tell.
    pub told_ns: u64,
    /// For so long the process had nothing queued: from the end of a wait for all that it had submitted to its next submission.
    pub unqueued_ns: u64,
    /// How busy the busiest GPU was just before the process submitted anything: with somebody else's work. Null where its begin or such a
    /// sample was not recorded.
    pub before_percent: Option<u64>,
    /// Length of the phase.
    #[serde(skip)]
    pub(crate) len_ns: u64,
}

impl Busy {
    /// For how long about it was idle, or had nothing of its process to do, where it was busy nearly all the time, and not with somebody
    /// else's work before, too.
    pub(crate) fn idle_beside_queue_ns(&self) -> Option<u64> {
        (self.percent >= QUEUE_FROM && self.others_percent().is_none()).then_some(self.idle_ns.max(self.unqueued_ns))
    }

    /// Whether the samples tell of nearly all of the phase.
    fn is_of_all(&self) -> bool {
        self.told_ns >= self.len_ns / 10 * 9
    }

    /// How busy it was with somebody else's work before, where it was.
    fn others_percent(&self) -> Option<u64> {
        self.before_percent.filter(|&percent| percent >= OTHERS_FROM)
    }

    /// Whether the process had nothing queued for clearly longer than the GPU was idle: then it was busy with something else.
    fn is_anothers(&self) -> bool {
        self.unqueued_ns > self.idle_ns.saturating_add(self.len_ns / 10)
    }

    /// Whether it was clearly busier than fed, by the share of the time in which its host fed it: it had work queued.
    pub(crate) fn is_beyond(&self, fed: f64) -> bool {
        /// Shares that differ by less, in percent, say the same.
        const DIFFERS: f64 = 10.0;
        #[expect(clippy::cast_precision_loss, reason = "a percentage")]
        let percent = self.percent as f64;
        percent >= 100.0 * fed + DIFFERS && self.is_of_all() && !self.is_anothers() && self.others_percent().is_none()
    }

    /// The same in words.
    #[must_use]
    pub fn words(&self) -> String {
        let who = if self.devices == 1 { "the GPU" } else { "the least busy GPU" };
        let (of, rest) = match self.is_of_all() {
            true => ("the time".to_owned(), ""),
            false => (duration(self.told_ns), ", which tell nothing of the rest"),
        };
        let but = match self.others_percent() {
            Some(before) => format!(", and {before} % before this process submitted anything: another one uses it"),
            None if self.is_anothers() => format!(
                ", though this process had nothing queued for {}: another one used it, or the samples missed that",
                duration(self.unqueued_ns)
            ),
            None => String::new(),
        };
        format!("{who} was busy {} % of {of} by {} samples of its own{rest}{but}", self.percent, self.samples)
    }
}

impl Devices {
    pub(crate) fn sample(&mut self, host: usize, at_ns: u64, e: &GpuSample) {
        let is_used = e.memory_used_bytes.is_none_or(|bytes| bytes >= USED_BYTES);
        // One that works for somebody and does not tell how busy it is stays among the others, with nothing to tell.
        if e.busy_percent.is_none() && !is_used {
            return;
        }
        let readings = self.0.entry((host, e.device)).or_default();
        readings.extend(e.busy_percent.map(|percent| Reading { at_ns, percent: percent.min(100), is_used }));
    }

    /// The last sample of each GPU of a host before some time: the largest.
    pub(crate) fn just_before(&self, host: usize, at_ns: u64) -> Option<u64> {
        let last = |samples: &Vec<Reading>| samples.iter().rfind(|s| s.at_ns < at_ns).map(|s| s.percent);
        self.0.range((host, 0)..=(host, u64::MAX)).filter_map(|(_, samples)| last(samples)).max()
    }

    /// How busy the least busy GPU of a host was from one time to another; none where that is not known of each.
    pub(crate) fn busy(&self, host: usize, start_ns: u64, end_ns: u64) -> Option<Busy> {
        let told = self.0.range((host, 0)..=(host, u64::MAX)).filter_map(|(_, samples)| {
            let within = || samples.iter().filter(|s| (start_ns..end_ns).contains(&s.at_ns));
            let is_used = within().next().is_none() || within().any(|s| s.is_used);
            is_used.then(|| of_device(samples, within().count() as u64, start_ns, end_ns))
        });
        let told: Vec<Busy> = told.collect::<Option<_>>()?;
        let devices = told.len() as u64;
        told.into_iter().max_by_key(|busy| busy.idle_ns).map(|busy| Busy { devices, ..busy })
    }
}

/// What so many samples within a time say of it. Each stands for the time since the one before, the last one for what is behind it, too: one
/// that was taken after the end tells of what came then.
fn of_device(samples: &[Reading], count: u64, start_ns: u64, end_ns: u64) -> Option<Busy> {
    let (mut told_ns, mut busy) = (0, 0_u128);
    let mut tell = |from_ns: u64, to_ns: u64, percent: u64| {
        let ns = to_ns.saturating_sub(from_ns.max(start_ns));
        told_ns += ns;
        busy += u128::from(ns) * u128::from(percent);
    };
    let mut before_ns = 0;
    let inside = samples.get(..samples.partition_point(|s| s.at_ns < end_ns)).unwrap_or_default();
    for s in inside {
        tell(before_ns.max(s.at_ns.saturating_sub(TELLS_NS)), s.at_ns, s.percent);
        before_ns = s.at_ns;
    }
    if let Some(last) = inside.last() {
        tell(last.at_ns, end_ns.min(last.at_ns.saturating_add(TELLS_NS)), last.percent);
    }
    // What is told and not busy was idle; both sums are of percents.
    let idle_ns = u64::try_from((u128::from(told_ns) * 100 - busy) / 100).unwrap_or(u64::MAX);
    let len_ns = end_ns.saturating_sub(start_ns);
    (count >= SAMPLES && told_ns > 0).then(|| Busy {
        samples: count,
        devices: 1,
        percent: u64::try_from(busy / u128::from(told_ns)).unwrap_or(100),
        idle_ns: idle_ns.saturating_add(len_ns.saturating_sub(told_ns)),
        told_ns,
        unqueued_ns: 0,
        before_percent: None,
        len_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(samples: &[(u64, u64)]) -> Devices {
        let mut devices = Devices::default();
        for &(ms, busy) in samples {
            let sample = GpuSample { busy_percent: Some(busy), ..GpuSample::default() };
            devices.sample(0, ms * 1_000_000, &sample);
        }
        devices
    }

    fn busy(devices: &Devices, host: usize, from_ms: u64, to_ms: u64) -> Option<Busy> {
        devices.busy(host, from_ms * 1_000_000, to_ms * 1_000_000)
    }

    #[test]
    fn what_no_sample_tells_of_counts_as_idle() {
        let devices = sampled(&[(1_000, 0), (2_000, 100), (3_000, 50), (4_000, 100)]);
        // Half of the second up to 2 s, the next two whole, and half a second behind the last.
        let told = busy(&devices, 0, 1_500, 4_500).unwrap();
        assert_eq!((told.samples, told.percent, told.devices), (3, 83, 1));
        assert_eq!((told.idle_ns, told.idle_beside_queue_ns()), (500_000_000, None));
        // One that was taken later tells of what came then.
        assert_eq!(
            busy(&sampled(&[(1_000, 0), (2_000, 100), (3_000, 50), (4_000, 100), (5_000, 0)]), 0, 1_500, 4_500),
            Some(told)
        );
        // Nor does it tell more than a second and a half of what is behind it.
        let told = busy(&devices, 0, 1_500, 9_000).unwrap();
        assert_eq!((told.told_ns, told.idle_ns), (4_000_000_000, 500_000_000 + 3_500_000_000));
        assert_eq!(busy(&devices, 0, 1_500, 3_500), None, "two samples");
        assert_eq!(busy(&devices, 1, 0, 4_500), None, "another host");
        // One that is late tells no more than a second and a half.
        let late = sampled(&[(1_000, 100), (2_000, 100), (12_000, 100)]);
        let late = busy(&late, 0, 0, 12_001).unwrap();
        assert_eq!((late.idle_ns, late.idle_beside_queue_ns()), (8_500_000_000, Some(8_500_000_000)));
        assert_eq!(
            late.words(),
            "the GPU was busy 100 % of 3.50 s by 3 samples of its own, which tell nothing of the rest"
        );
        assert!(!late.is_beyond(0.1), "of a part of the time");
    }

    #[test]
    fn a_gpu_that_is_busy_while_nothing_is_queued_is_anothers() {
        let devices = sampled(&[(1_000, 100), (2_000, 100), (3_000, 100)]);
        let told = busy(&devices, 0, 0, 3_001).unwrap();
        assert_eq!((told.idle_beside_queue_ns(), told.is_beyond(0.5)), (Some(0), true));
        let short = Busy { unqueued_ns: 300_000_000, ..told };
        assert_eq!((short.idle_beside_queue_ns(), short.is_beyond(0.5)), (Some(300_000_000), true));
        let long = Busy { unqueued_ns: 2_900_000_000, ..told };
        assert_eq!((long.idle_beside_queue_ns(), long.is_beyond(0.5)), (Some(2_900_000_000), false));
        assert_eq!(
            long.words(),
            "the GPU was busy 100 % of the time by 3 samples of its own, though this process had nothing queued for 2.90 s: \
             another one used it, or the samples missed that"
        );
    }

    #[test]
    fn a_gpu_that_was_busy_before_works_for_others() {
        let devices = sampled(&[(500, 10), (1_000, 90), (2_000, 100), (3_000, 100), (4_000, 100)]);
        let before = |ms: u64| devices.just_before(0, ms * 1_000_000);
        assert_eq!(
            [before(400), before(900), before(1_500), devices.just_before(1, u64::MAX)],
            [None, Some(10), Some(90), None]
        );
        let told = busy(&devices, 0, 1_500, 4_001).unwrap();
        let after_idleness = Busy { before_percent: before(900), ..told };
        assert!(after_idleness.idle_beside_queue_ns().is_some() && after_idleness.is_beyond(0.1));
        let beside = Busy { before_percent: before(1_500), ..told };
        assert!(beside.idle_beside_queue_ns().is_none() && !beside.is_beyond(0.1));
        let said = " samples of its own, and 90 % before this process submitted anything: another one uses it";
        assert!(beside.words().ends_with(said), "{}", beside.words());
    }

    #[test]
    fn of_several_gpus_the_least_busy_one_is_told() {
        let mut devices = sampled(&[(1_000, 100), (2_000, 100), (3_000, 100)]);
        for at in 1..=3 {
            let sample = GpuSample { device: 1, busy_percent: Some(30), ..GpuSample::default() };
            devices.sample(0, at * 1_000_000_000, &sample);
        }
        let told = busy(&devices, 0, 0, 3_001).unwrap();
        assert_eq!((told.devices, told.percent), (2, 30));
        devices.sample(0, 5, &GpuSample { device: 2, busy_percent: Some(9), ..GpuSample::default() });
        assert_eq!(busy(&devices, 0, 0, 3_001), None, "little is known of the third");
        // The same where one never tells.
        let mut devices = sampled(&[(1_000, 100), (2_000, 100), (3_000, 100)]);
        devices.sample(0, 5, &GpuSample { device: 2, ..GpuSample::default() });
        assert_eq!(busy(&devices, 0, 0, 3_001), None);
        // One that has next to no memory in use is nobody's.
        let unused =
            GpuSample { device: 3, busy_percent: Some(0), memory_used_bytes: Some(4 << 20), ..GpuSample::default() };
        let mut devices = sampled(&[(1_000, 100), (2_000, 100), (3_000, 100)]);
        (1..=3).for_each(|at| devices.sample(0, at * 1_000_000_000, &unused));
        devices.sample(0, 5, &GpuSample { device: 4, busy_percent: None, ..unused });
        assert_eq!(busy(&devices, 0, 0, 3_001).map(|b| (b.devices, b.percent)), Some((1, 100)));
    }
}

//! What GPUs say of themselves: how much of the time something ran on them.
//!
//! What is submitted is queued, so that a GPU may be busy while nobody submits anything; when its work ends is not recorded. Its driver
//! counts it, though, and the recorder asks it once a second (NVML's utilisation: the share of the last sixth of a second to second
//! in which a kernel ran). That is a sample and bounds nothing; where a GPU was busy nearly all the time by many of them, though, what its
//! process did between submissions cost it next to nothing, and to call it lost would be wrong by far.

use std::collections::BTreeMap;

use ingero_format::catalog::GpuSample;

/// A sample tells of the time since the one before, and of no more than so much: they are taken once a second, and one may be late.
const TELLS_NS: u64 = 1_500_000_000;
/// Fewer samples than these within a phase say nothing of it: each is of a part of its second.
const SAMPLES: u64 = 3;
/// From so many percent on a GPU has work queued: whoever runs out of it is idle for longer.
const QUEUE_FROM: u64 = 90;
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
/// queued; from 90 percent on no incident counts more than the time in which it was idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(serde::Deserialize, schemars::JsonSchema))]
pub struct Busy {
    /// Share of the sampled time in which a kernel ran, percent.
    pub percent: u64,
    /// Samples within the phase.
    pub samples: u64,
    /// GPUs of the host that work for anybody. Which of several is the process's is not known: it is said of the least busy one.
    pub devices: u64,
    /// For so long no kernel ran in the phase, about: the samples stand for the time between them, and what lies behind the last
    /// one counts as idle.
    pub idle_ns: u64,
}

impl Busy {
    /// For how long about it was idle, where it was busy nearly all the time.
    pub(crate) fn idle_beside_queue_ns(&self) -> Option<u64> {
        (self.percent >= QUEUE_FROM).then_some(self.idle_ns)
    }

    /// Whether it was clearly busier than fed, by the share of the time in which its host fed it: it had work queued.
    pub(crate) fn is_beyond(&self, fed: f64) -> bool {
        /// Shares that differ by less, in percent, say the same.
        const DIFFERS: f64 = 10.0;
        #[expect(clippy::cast_precision_loss, reason = "a percentage")]
        let percent = self.percent as f64;
        percent >= 100.0 * fed + DIFFERS
    }

    /// The same in words.
    #[must_use]
    pub fn words(&self) -> String {
        let who = if self.devices == 1 { "the GPU" } else { "the least busy GPU" };
        format!("{who} was busy {} % of the time by {} samples of its own", self.percent, self.samples)
    }
}

impl Devices {
    pub(crate) fn sample(&mut self, host: usize, at_ns: u64, e: &GpuSample) {
        if let Some(percent) = e.busy_percent {
            let is_used = e.memory_used_bytes.is_none_or(|bytes| bytes >= USED_BYTES);
            let reading = Reading { at_ns, percent: percent.min(100), is_used };
            self.0.entry((host, e.device)).or_default().push(reading);
        }
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

/// What so many samples within a time say of it.
fn of_device(samples: &[Reading], count: u64, start_ns: u64, end_ns: u64) -> Option<Busy> {
    let (mut told_ns, mut busy_ns, mut idle_ns) = (0, 0, 0_u128);
    let mut before_ns = 0;
    for s in samples {
        let from_ns = before_ns.max(s.at_ns.saturating_sub(TELLS_NS)).max(start_ns);
        let ns = s.at_ns.min(end_ns).saturating_sub(from_ns);
        before_ns = s.at_ns;
        told_ns += ns;
        busy_ns += u128::from(ns) * u128::from(s.percent);
        idle_ns += u128::from(ns) * u128::from(100 - s.percent);
    }
    let part = |sum: u128| u64::try_from(sum / 100).unwrap_or(u64::MAX);
    (count >= SAMPLES && told_ns > 0).then(|| Busy {
        samples: count,
        devices: 1,
        percent: u64::try_from(busy_ns / u128::from(told_ns)).unwrap_or(100),
        idle_ns: part(idle_ns).saturating_add((end_ns - start_ns).saturating_sub(told_ns)),
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
        assert_eq!((told.samples, told.percent, told.devices), (3, 80, 1));
        assert_eq!((told.idle_ns, told.idle_beside_queue_ns()), (500_000_000 + 500_000_000, None));
        assert_eq!(busy(&devices, 0, 1_500, 3_500), None, "two samples");
        assert_eq!(busy(&devices, 1, 0, 4_500), None, "another host");
        // One that is late tells no more than a second and a half.
        let late = sampled(&[(1_000, 100), (2_000, 100), (12_000, 100)]);
        let late = busy(&late, 0, 0, 12_001).unwrap();
        assert_eq!((late.idle_ns, late.idle_beside_queue_ns()), (1_000_000 + 8_500_000_000, Some(8_501_000_000)));
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
        // One that has next to no memory in use is nobody's.
        let unused =
            GpuSample { device: 3, busy_percent: Some(0), memory_used_bytes: Some(4 << 20), ..GpuSample::default() };
        let mut devices = sampled(&[(1_000, 100), (2_000, 100), (3_000, 100)]);
        (1..=3).for_each(|at| devices.sample(0, at * 1_000_000_000, &unused));
        assert_eq!(busy(&devices, 0, 0, 3_001).map(|b| (b.devices, b.percent)), Some((1, 100)));
    }
}

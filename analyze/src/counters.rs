//! Counters of the machine over time, from its samples.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ingero_format::Trace;
use ingero_format::catalog::{Body, GpuSample, Kind, PRESSURES, Pressure, System};
use ingero_replay::{Event, Hosts};

/// Counters of the machine by name, in the order of [`Counters::system`].
const NAMES: [&str; 6] =
    ["CPU user %", "CPU system %", "CPU stolen %", "memory used bytes", "swap used bytes", "load, 1 minute"];

/// A counter at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Name, with its unit.
    pub name: Cow<'static, str>,
    /// Value, thousandths.
    pub thousandths: u64,
}

/// Turns samples into values: shares of time are since the sample before, of the same host.
#[derive(Debug, Default)]
pub struct Counters {
    /// What is of a host as a whole stands on its first CPU.
    hosts: Hosts,
    /// By host.
    before: BTreeMap<usize, System>,
    /// By host and resource: the last sample with its time.
    pressures: BTreeMap<(usize, u64), (u64, Pressure)>,
}

impl Counters {
    /// The counters of a recording from its beginning.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        Self { hosts: Hosts::new(trace), ..Self::default() }
    }

    /// The counters that an event tells, and of which kind it is; nothing for most. Those of several hosts have the host's
    /// name in front.
    pub fn readings(&mut self, event: &Event) -> Option<(Kind, Vec<Reading>)> {
        let host = self.hosts.of_cpu(event.cpu);
        let (kind, mut readings) = self.of_host(host, event)?;
        if let Some(host) = self.hosts.get(host) {
            for reading in &mut readings {
                reading.name = format!("{}: {}", host.label, reading.name).into();
            }
        }
        Some((kind, readings))
    }

    fn of_host(&mut self, host: usize, event: &Event) -> Option<(Kind, Vec<Reading>)> {
        match &event.body {
            Body::System(now) => {
                let reading = |(name, value): (&'static str, Option<u64>)| {
                    Some(Reading { name: name.into(), thousandths: value? })
                };
                Some((Kind::System, NAMES.into_iter().zip(self.system(host, now)).filter_map(reading).collect()))
            }
            Body::Pressure(now) => Some((Kind::Pressure, self.pressure(host, event.ts_ns, now))),
            Body::GpuSample(now) => Some((Kind::GpuSample, gpu(now))),
            _ => None,
        }
    }

    /// Shares of the time since the sample before in which tasks stood still, percent.
    fn pressure(&mut self, host: usize, ts_ns: u64, now: &Pressure) -> Vec<Reading> {
        let Some((before_ns, before)) = self.pressures.insert((host, now.resource), (ts_ns, *now)) else {
            return Vec::new();
        };
        let passed = u128::from(ts_ns.saturating_sub(before_ns)).max(1);
        let resource = PRESSURES.iter().find(|(number, _)| *number == now.resource).map_or("unknown", |(_, name)| name);
        let share = |now: Option<u64>, before: Option<u64>| {
            let stood = u128::from(now?.saturating_sub(before?));
            // The kernel counts in steps of its own: a share may come out a little above the whole.
            u64::try_from(stood * 100_000 / passed).ok().map(|share| share.min(100_000))
        };
        let some = ("some", share(now.some_ns, before.some_ns));
        let full = ("full", share(now.full_ns, before.full_ns));
        let reading = |(who, share): (&str, Option<u64>)| {
            Some(Reading { name: format!("pressure {resource} {who} %").into(), thousandths: share? })
        };
        [some, full].into_iter().filter_map(reading).collect()
    }

    /// The values at a sample, thousandths; shares are unknown at the first one.
    fn system(&mut self, host: usize, now: &System) -> [Option<u64>; NAMES.len()] {
        let mut values = [None; NAMES.len()];
        if let Some(before) = self.before.insert(host, *now) {
            let since = |pick: fn(&System) -> Option<u64>| Some(pick(now)?.saturating_sub(pick(&before)?));
            let busy = [since(|s| s.user_ns), since(|s| s.system_ns), since(|s| s.steal_ns)];
            // A kernel that does not count waiting for disks counts it as idle.
            let idle = since(|s| s.idle_ns).map(|idle| idle.saturating_add(since(|s| s.iowait_ns).unwrap_or(0)));
            let all: u128 = busy.iter().chain([&idle]).flatten().map(|&ns| u128::from(ns)).sum();
            for (value, part) in values.iter_mut().zip(busy) {
                *value = part.map(|part| u64::try_from(u128::from(part) * 100_000 / all.max(1)).unwrap_or(0));
            }
        }
        let used = now.mem_total_bytes.zip(now.mem_available_bytes).map(|(all, free)| all.saturating_sub(free));
        let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes.min(1 << 53).saturating_mul(1000));
        values[3] = bytes(used);
        values[4] = bytes(now.swap_used_bytes);
        values[5] = now.load1_milli;
        values
    }
}

/// What a GPU told of itself.
fn gpu(now: &GpuSample) -> Vec<Reading> {
    let whole = |value: Option<u64>| value.map(|value| value.min(1 << 53).saturating_mul(1000));
    let values = [
        ("busy %", whole(now.busy_percent)),
        ("memory busy %", whole(now.memory_busy_percent)),
        ("memory used bytes", whole(now.memory_used_bytes)),
        ("SM MHz", whole(now.sm_mhz)),
        ("memory MHz", whole(now.memory_mhz)),
        ("PCIe received bytes/s", whole(now.pcie_rx)),
        ("PCIe sent bytes/s", whole(now.pcie_tx)),
        ("power W", now.power_mw),
        ("temperature C", whole(now.celsius)),
    ];
    let reading = |(what, value): (&str, Option<u64>)| {
        Some(Reading { name: format!("GPU {} {what}", now.device).into(), thousandths: value? })
    };
    values.into_iter().filter_map(reading).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_format::catalog::NO_CPU;

    fn readings(counters: &mut Counters, ts_ns: u64, body: Body) -> Vec<(String, u64)> {
        let event = Event { ts_ns, cpu: NO_CPU, body };
        let (_, readings) = counters.readings(&event).unwrap();
        readings.into_iter().map(|r| (r.name.into_owned(), r.thousandths)).collect()
    }

    #[test]
    fn pressure_is_a_share_of_the_time_since_the_sample_before() {
        let mut counters = Counters::default();
        let sample = |some_ns, full_ns| Body::Pressure(Pressure { resource: 1, some_ns: Some(some_ns), full_ns });
        assert_eq!(readings(&mut counters, 1_000, sample(500, None)), []);
        assert_eq!(
            readings(&mut counters, 2_000, sample(750, Some(5))),
            [("pressure memory some %".to_owned(), 25_000)]
        );
        let both = [("pressure memory some %".to_owned(), 100_000), ("pressure memory full %".to_owned(), 10_000)];
        assert_eq!(readings(&mut counters, 3_000, sample(1_760, Some(105))), both);
    }

    #[test]
    fn a_gpu_tells_what_its_driver_tells() {
        let sample = GpuSample { device: 3, busy_percent: Some(40), power_mw: Some(71_250), ..GpuSample::default() };
        let told = readings(&mut Counters::default(), 5, Body::GpuSample(sample));
        assert_eq!(told, [("GPU 3 busy %".to_owned(), 40_000), ("GPU 3 power W".to_owned(), 71_250)]);
    }
}

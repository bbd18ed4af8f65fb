//! State of the GPUs, by NVIDIA's own library, which is loaded where there is one.

use ingero_format::catalog::GpuSample;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter, TemperatureSensor};

use crate::finding::{Finding, What};

/// The library, loaded.
#[derive(Debug)]
pub struct Gpus {
    nvml: Nvml,
    count: u32,
}

impl Gpus {
    /// Loads the library.
    ///
    /// # Errors
    /// Why there is nothing to ask: no library, no driver, no device.
    pub fn open() -> Result<Self, String> {
        let nvml = Nvml::init().map_err(|e| e.to_string())?;
        match nvml.device_count() {
            Ok(0) => Err("no device".to_owned()),
            Ok(count) => Ok(Self { nvml, count }),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Devices that it knows.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Asks every device. What one does not tell is unknown.
    #[must_use]
    pub fn sample(&self) -> Vec<Finding> {
        (0..self.count).filter_map(|index| self.sample_one(index)).collect()
    }

    fn sample_one(&self, index: u32) -> Option<Finding> {
        let device = self.nvml.device_by_index(index).ok()?;
        let busy = device.utilization_rates().ok();
        let memory = device.memory_info().ok();
        let clock = |which| device.clock_info(which).ok().map(u64::from);
        // In KiB a second.
        let pcie = |which| device.pcie_throughput(which).ok().map(|kib| u64::from(kib) * 1024);
        let row = GpuSample {
            device: u64::from(index),
            busy_percent: busy.as_ref().map(|busy| u64::from(busy.gpu)),
            memory_busy_percent: busy.as_ref().map(|busy| u64::from(busy.memory)),
            memory_used_bytes: memory.as_ref().map(|memory| memory.used),
            memory_total_bytes: memory.as_ref().map(|memory| memory.total),
            sm_mhz: clock(Clock::SM),
            memory_mhz: clock(Clock::Memory),
            throttle: device.current_throttle_reasons().ok().map(|reasons| reasons.bits()),
            pcie_rx: pcie(PcieUtilCounter::Receive),
            pcie_tx: pcie(PcieUtilCounter::Send),
            power_mw: device.power_usage().ok().map(u64::from),
            celsius: device.temperature(TemperatureSensor::Gpu).ok().map(u64::from),
            ..GpuSample::default()
        };
        Some(Finding::now(What::Gpu(Box::new(row), device.uuid().ok(), device.name().ok())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Where there is no GPU, that is said and is no failure; where there is one, it has memory.
    #[test]
    fn absence_is_said() {
        match Gpus::open() {
            Err(why) => assert!(!why.is_empty()),
            Ok(gpus) => {
                let found = gpus.sample();
                assert_eq!(found.len(), gpus.count() as usize);
                assert!(
                    found.iter().all(|f| matches!(&f.what, What::Gpu(row, ..) if row.memory_total_bytes > Some(0)))
                );
            }
        }
    }
}

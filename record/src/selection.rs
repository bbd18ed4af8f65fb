//! Which of the sources are recorded: kinds of events by their catalogue names, layers of calls by theirs.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use ingero_format::catalog::{Detail, EVENTS, FUNCTIONS, Function, Kind, Layer};

/// Kinds that are no sources of their own: what says who and when, and what was lost.
const ALWAYS: [Kind; 3] = [Kind::Process, Kind::Loss, Kind::Clock];
/// From this number on kinds are those of other tools, which only imports fill.
const IMPORTED: u16 = 64;
/// Kinds that are recorded of what was asked for alone. To know who that is, births, deaths and programs are recorded
/// too.
const FOLLOWING: [Kind; 8] = [
    Kind::Call,
    Kind::PageAlloc,
    Kind::PageFault,
    Kind::SocketIo,
    Kind::Collective,
    Kind::Range,
    Kind::Mapping,
    Kind::ProcessSample,
];
/// How a followed process comes and goes.
const LIFE: [Kind; 4] = [Kind::Fork, Kind::Exec, Kind::Exit, Kind::Name];

/// Sources that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    kinds: BTreeSet<Kind>,
    layers: BTreeSet<Layer>,
}

impl Default for Selection {
    /// Everything.
    fn default() -> Self {
        Self { kinds: sources().map(|(kind, _)| kind).collect(), layers: layers().into_iter().collect() }
    }
}

/// Kinds that can be chosen, with their names, in the order of the catalogue.
fn sources() -> impl Iterator<Item = (Kind, &'static str)> {
    let chosen = EVENTS.iter().filter(|e| !ALWAYS.contains(&e.kind) && (e.kind as u16) < IMPORTED);
    chosen.map(|e| (e.kind, e.name))
}

/// Layers that any function of the table belongs to.
fn layers() -> Vec<Layer> {
    let mut layers: Vec<Layer> = FUNCTIONS.iter().map(|f| f.layer).collect();
    layers.sort_unstable();
    layers.dedup();
    layers
}

impl Selection {
    /// From the lists of `--only`, `--no` and `--layers`; empty ones were not given.
    ///
    /// # Errors
    /// When a name is none of the catalogue's, or nothing is left.
    pub fn new(only: &[String], without: &[String], of_layers: &[String]) -> Result<Self> {
        let mut wanted = Self::default();
        if !only.is_empty() {
            wanted.kinds = only.iter().map(|name| kind("--only", name)).collect::<Result<_>>()?;
        }
        // A collective stands beside its call, and says nothing without.
        if wanted.has(Kind::Collective) && wanted.kinds.insert(Kind::Call) && of_layers.is_empty() {
            wanted.layers = [Layer::Nccl].into();
        }
        for name in without {
            wanted.kinds.remove(&kind("--no", name)?);
        }
        if wanted.kinds.is_empty() {
            bail!("--only and --no leave nothing to record");
        }
        if !of_layers.is_empty() {
            wanted.layers = of_layers.iter().map(|name| layer(name)).collect::<Result<_>>()?;
        }
        if wanted.kinds.iter().any(|kind| FOLLOWING.contains(kind)) {
            wanted.kinds.extend(LIFE);
        }
        Ok(wanted)
    }

    /// Whether events of this kind are wanted.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Whether calls of this function are wanted.
    #[must_use]
    pub fn has_function(&self, function: &Function) -> bool {
        let wanted = match (function.layer, function.detail) {
            // Its calls are no calls in the file.
            (Layer::Nvtx, Detail::Mark(_)) => self.has(Kind::Mark),
            (Layer::Nvtx, _) => self.has(Kind::Range),
            _ => self.has(Kind::Call),
        };
        wanted && self.layers.contains(&function.layer)
    }

    /// Whether calls of any function are wanted.
    #[must_use]
    pub fn has_functions(&self) -> bool {
        FUNCTIONS.iter().any(|f| self.has_function(f))
    }

    /// Whether calls of this layer are wanted.
    #[must_use]
    pub fn has_layer(&self, layer: Layer) -> bool {
        self.layers.contains(&layer)
    }

    /// The layers by their names, by comma.
    #[must_use]
    pub fn layer_names(&self) -> String {
        self.layers.iter().map(|layer| layer.name()).collect::<Vec<_>>().join(",")
    }

    /// The kinds by their names, by comma.
    #[must_use]
    pub fn kind_names(&self) -> String {
        sources().filter(|(kind, _)| self.has(*kind)).map(|(_, name)| name).collect::<Vec<_>>().join(",")
    }
}

fn kind(option: &str, name: &str) -> Result<Kind> {
    let found = sources().find(|(_, known)| *known == name.trim());
    let Some((kind, _)) = found else {
        let known: Vec<&str> = sources().map(|(_, name)| name).collect();
        bail!("{option} {name}: no such source; there are {}", known.join(", "))
    };
    Ok(kind)
}

fn layer(name: &str) -> Result<Layer> {
    let layers = layers();
    match layers.iter().find(|layer| layer.name() == name.trim()) {
        Some(layer) => Ok(*layer),
        None => {
            let known: Vec<&str> = layers.iter().map(|layer| layer.name()).collect();
            bail!("--layers {name}: no such layer; there are {}", known.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(only: &str, without: &str, layers: &str) -> Result<Selection> {
        let list = |text: &str| -> Vec<String> { text.split_terminator(',').map(str::to_owned).collect() };
        Selection::new(&list(only), &list(without), &list(layers))
    }

    #[test]
    fn one_tracepoint_is_one_tracepoint() {
        assert_eq!(selection("sched_switch", "", "").unwrap().kind_names(), "sched_switch");
        let rest = selection("", "sched_wakeup,mm_page_alloc", "").unwrap();
        assert!(
            rest.has(Kind::Switch) && rest.has(Kind::Call) && !rest.has(Kind::Wakeup) && !rest.has(Kind::PageAlloc)
        );
    }

    #[test]
    fn whoever_is_followed_is_seen_to_come_and_go() {
        let calls = selection("call", "", "").unwrap();
        assert!(LIFE.iter().all(|kind| calls.has(*kind)));
        assert!(!calls.has(Kind::Switch));
        assert!(selection("call", "sched_process_fork", "").unwrap().has(Kind::Fork));
    }

    #[test]
    fn layers_choose_functions() {
        let driver = selection("", "", "driver").unwrap();
        let of = |layer| FUNCTIONS.iter().filter(|f| f.layer == layer).all(|f| driver.has_function(f));
        assert!(of(Layer::Driver) && !of(Layer::Runtime));
        assert!(!selection("sched_switch", "", "").unwrap().has_functions());
        let collectives = selection("collective", "", "").unwrap();
        let of = |layer| FUNCTIONS.iter().filter(|f| f.layer == layer).all(|f| collectives.has_function(f));
        assert!(of(Layer::Nccl) && !of(Layer::Runtime));
        assert!(!selection("", "call", "").unwrap().has(Kind::Call));
        let ranges = selection("range", "", "").unwrap();
        let of = |symbol| FUNCTIONS.iter().any(|f| f.symbol == symbol && ranges.has_function(f));
        assert!(of("nvtxRangePushA") && !of("nvtxMarkA") && ranges.has_functions());
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        let e = selection("sched_swich", "", "").unwrap_err().to_string();
        assert!(e.starts_with("--only sched_swich: no such source") && e.contains("sched_switch, sched_waking"), "{e}");
        assert!(selection("", "loss", "").unwrap_err().to_string().starts_with("--no loss: "));
        let e = selection("", "", "cublas").unwrap_err().to_string();
        assert!(e.contains("runtime, driver"), "{e}");
        assert!(selection("sched_switch", "sched_switch", "").unwrap_err().to_string().contains("nothing"));
    }
}

//! The hosts of a trace, which ingero calls nodes: one, or those of a merged recording.

use ingero_format::Trace;

/// A host, and what a session says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    /// Its process ids begin there.
    pid_base: u32,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Its keys stand under its number, where it is one of several.
    number: Option<usize>,
}

impl Node {
    /// A key of its own recording.
    pub(super) fn meta<'t>(&self, trace: &'t Trace, key: &str) -> Option<&'t str> {
        let own = self.number.and_then(|n| trace.meta(&format!("host.{n}.{key}")));
        // The sum of the CPUs is nobody's number of them.
        own.or_else(|| trace.meta(key).filter(|_| self.number.is_none() || key != "cpus"))
    }
}

/// All of them, by their process ids; at least one.
#[derive(Debug)]
pub(super) struct Nodes(Vec<Node>);

impl Nodes {
    pub(super) fn new(trace: &Trace) -> Self {
        let (start_ns, end_ns) = trace.span_ns().unwrap_or_default();
        let name = trace.meta("host").unwrap_or("").to_owned();
        let alone = Node { name, pid_base: 0, start_ns, end_ns, number: None };
        let hosts = trace.meta("hosts").and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
        let host = |n: usize| {
            let number = |key: &str| trace.meta(&format!("host.{n}.{key}")).and_then(|text| text.parse::<u64>().ok());
            let pid_base = number("pid_base").and_then(|base| u32::try_from(base).ok())?;
            let (start_ns, end_ns) = (number("start_ns").unwrap_or(start_ns), number("end_ns").unwrap_or(end_ns));
            let node = Node { name: String::new(), pid_base, start_ns, end_ns, number: Some(n) };
            Some(Node { name: node.meta(trace, "host").unwrap_or("").to_owned(), ..node })
        };
        // No more than there are keys of: the number in a damaged file may be any.
        let mut nodes: Vec<Node> = (0..hosts).map_while(host).collect();
        nodes.sort_by_key(|node| node.pid_base);
        Self(if nodes.is_empty() { vec![alone] } else { nodes })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.0.iter()
    }

    /// The name of the host that a process is on. The idle task is on all of them.
    pub(super) fn of_pid(&self, pid: u32) -> &str {
        let after = self.0.partition_point(|node| node.pid_base <= pid);
        let node = after.checked_sub(1).and_then(|at| self.0.get(at)).or(self.0.first());
        node.filter(|_| pid != 0 || self.0.len() == 1).map_or("", |node| node.name.as_str())
    }
}

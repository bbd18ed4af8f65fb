//! The page: all its words and tables, which need no script. Whatever comes from the recording goes through the template's
//! escaping, control and invisible characters as escapes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ingero_format::catalog::Kind;
use ingero_replay::{Hosts, ProcessId};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::charts;
use super::gather::Gathered;
use super::sights::sights;
use super::tracks::{CPUS, busiest};
use crate::report::Op;
use crate::report::json::{IncidentRow, PhaseRow, ProcessRow, Report};
use crate::report::{self, Options, bytes, count, duration, instant, percent};
use crate::{Analysis, Incident, printable};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = concat!(
    include_str!("data.js"),
    include_str!("draw.js"),
    include_str!("describe.js"),
    include_str!("timeline.js"),
    include_str!("input.js"),
    include_str!("page.js")
);
/// Rows of the table of processes, and histograms of a process.
const PROCESSES: usize = 400;
const HISTOGRAMS: usize = 24;
/// Processes whose calls are shown.
const CALLERS: usize = 32;
/// What the mark of such figures means.
const LEAST: &str = "≥: at least so much, since events are missing that it rests on.";
/// What a report begins with: by it an earlier report is known, which may be overwritten.
pub(super) const BEGINS: &str = "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"generator\" content=\"ingero-analyze\">";

/// Everything that the page shows.
pub(super) struct Document<'a> {
    pub(super) a: &'a Analysis<'a>,
    pub(super) options: &'a Options<'a>,
    pub(super) gathered: &'a Gathered,
    /// What the timeline is drawn from.
    pub(super) data: &'a str,
    /// What the timeline leaves out, in sentences.
    pub(super) notes: &'a [String],
}

/// The source of a policy that allows just this text.
fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// A figure of a table that may be unknown: how it is shown, with the exact number for sorting.
fn figure(value: Option<u64>, show: impl Fn(u64) -> String) -> Markup {
    figure_of(value, false, show)
}

/// The same, of which there was more where something is missing that it rests on.
fn figure_of(value: Option<u64>, at_least: bool, show: impl Fn(u64) -> String) -> Markup {
    html! {
        @match value {
            // Of nothing at all there is no least.
            Some(n) => td.n data-v=(n) { (report::least(at_least && n > 0, &show(n))) },
            None => td.n.unknown { abbr title="cannot be known from this recording" { "–" } },
        }
    }
}

/// Units that stay on the line of their figure.
const UNITS: [&str; 14] = ["ns", "us", "µs", "ms", "s", "min", "h", "%", "B", "KiB", "MiB", "GiB", "TiB", "bytes"];

/// A page in which no line ends between a figure and its unit. Names, tags and all from the first script on stay as they are.
fn unbroken(page: &str) -> String {
    let end = page.find("<script").unwrap_or(page.len());
    let (shown, rest) = page.split_at(end);
    let mut out = String::with_capacity(page.len());
    let mut is_name = false;
    // Each piece begins with a tag, and goes on with text.
    for piece in shown.split_inclusive('>').flat_map(|piece| {
        let at = piece.find('<').unwrap_or(piece.len());
        let (text, tag) = piece.split_at(at);
        [text, tag]
    }) {
        match piece.starts_with('<') {
            true => {
                is_name = piece.starts_with("<bdi") || piece.starts_with("<style") || piece.starts_with("<title");
                out.push_str(piece);
            }
            false if is_name => out.push_str(piece),
            false => {
                let mut last = ' ';
                let mut left = piece;
                while let Some(c) = left.chars().next() {
                    left = &left[c.len_utf8()..];
                    let word = left.split(|c: char| !(c.is_alphanumeric() || c == '%')).next().unwrap_or_default();
                    let holds = c == ' ' && last.is_ascii_digit() && UNITS.contains(&word);
                    out.push(if holds { '\u{a0}' } else { c });
                    last = c;
                }
            }
        }
    }
    out.push_str(rest);
    out
}

impl Document<'_> {
    /// The page.
    pub(super) fn render(&self) -> String {
        let (a, data) = (self.a, self.data);
        let report = Report::new(a, self.options.pids);
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
            hash(SCRIPT),
            hash(STYLE)
        );
        let title = format!("ingero: {}", printable(a.trace.path()));
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="generator" content="ingero-analyze";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    meta name="referrer" content="no-referrer";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a.skip href="#incidents" { "To the causes" }
                    (self.head(&report))
                    main {
                        (self.caveats(&report))
                        (self.incidents(&report))
                        (self.timeline())
                        (self.phases(&report))
                        (self.processes(&report))
                        (self.calls(&report))
                        (self.cpus())
                        (self.counters())
                    }
                    (self.foot())
                    script #data type="application/octet-stream" { (PreEscaped(data)) }
                    script type="module" { (PreEscaped(SCRIPT)) }
                }
            }
        };
        unbroken(&page.into_string())
    }

    fn wanted(&self, id: ProcessId) -> bool {
        self.options.pids.is_empty() || self.options.pids.contains(&self.a.processes.get(id).pid)
    }

    fn at(&self, ts_ns: u64) -> String {
        instant(self.a, ts_ns, self.options.wall)
    }

    fn head(&self, report: &Report) -> Markup {
        let a = self.a;
        let verdicts = report::verdicts(a, &|id| self.wanted(id));
        let t = &report.trace;
        let lost = report::lost(a);
        let cut = a.window.is_cut() && t.duration_ns > 0;
        let (from, to) = (a.window.from_ns, a.window.from_ns + a.window.len_ns());
        html! {
            header.page {
                div.bar { span.brand { "ingero" } span.file { bdi { (printable(a.trace.path())) } } }
                h1 { "What the GPU waited for" }
                @for (n, verdict) in verdicts.iter().enumerate() {
                    p.verdict.first[n == 0] { (printable(verdict)) }
                }
                dl.facts {
                    div { dt { "Recorded" } dd data-v=(t.duration_ns) { (duration(t.duration_ns)) } }
                    @if cut { div { dt { "Shown" } dd { (self.at(from)) " to " (self.at(to)) } } }
                    div { dt { "Events" } dd data-v=(t.events) { (count(t.events)) } }
                    div { dt { "Losses" } dd.bad[lost != "none lost"] { (lost) } }
                    @if let Some(cpus) = t.cpus { div { dt { "CPUs" } dd { (cpus) } } }
                    @if let Some(kernel) = t.kernel { div { dt { "Kernel" } dd { bdi { (printable(kernel)) } } } }
                    @if let Some(unix_ns) = t.start_unix_ns {
                        div { dt { "Begun" } dd { (ingero_replay::show_wall(unix_ns)) } }
                    }
                }
            }
        }
    }

    fn caveats(&self, report: &Report) -> Markup {
        let losses = &report.losses;
        html! {
            @if !report.caveats.is_empty() {
                section #caveats aria-labelledby="h-caveats" {
                    h2 #h-caveats { "What this recording cannot tell" }
                    ul { @for caveat in &report.caveats { li { (printable(caveat)) } } }
                    @if !losses.is_empty() {
                        div.scroll {
                            table {
                                caption { "Events that are missing" }
                                thead { tr { th scope="col" { "what" } th scope="col" { "why" } th.n scope="col" { "events" }
                                    th.n scope="col" { "from" } th.n scope="col" { "to" } } }
                                tbody {
                                    @for loss in losses {
                                        tr {
                                            th scope="row" { (printable(loss.probe)) }
                                            td { (printable(loss.cause)) }
                                            td.n data-v=(loss.count) { @if loss.uncounted && loss.count == 0 { "unknown" } @else { @if loss.uncounted { "at least " } (count(loss.count)) } }
                                            td.n data-v=(loss.from_ns) { (self.since_start(loss.from_ns)) }
                                            td.n data-v=(loss.to_ns) { (self.since_start(loss.to_ns)) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// An instant that is told from the trace's start.
    fn since_start(&self, rel_ns: u64) -> String {
        self.at(self.a.window.trace_start_ns.saturating_add(rel_ns))
    }

    fn incidents(&self, report: &Report) -> Markup {
        let a = self.a;
        let incidents = a.incidents.iter().filter(|i| self.wanted(i.process));
        html! {
            section #incidents aria-labelledby="h-incidents" {
                h2 #h-incidents { "Causes of lost time" }
                @if report.incidents.is_empty() {
                    p { (report::nothing::of_causes(a, &|id| self.wanted(id))) }
                }
                @for (n, (row, incident)) in report.incidents.iter().zip(incidents).enumerate() {
                    (self.incident(n, row, incident))
                }
            }
        }
    }

    fn incident(&self, n: usize, row: &IncidentRow, incident: &Incident) -> Markup {
        let class = row.severity.to_lowercase();
        html! {
            article.incident.(class) aria-labelledby=(format!("i{n}")) {
                div.lost {
                    span.severity { (row.severity) }
                    strong data-v=(row.lost_ns) { (incident.lost()) }
                    span { (report::share_of(incident)) " % of phase " (row.phase) }
                }
                div.what {
                    h3 id=(format!("i{n}")) { (printable(row.summary)) }
                    dl {
                        dt { "Cause" } dd { (printable(row.root_cause)) }
                        @if !row.recommendations.is_empty() {
                            dt { "Do" }
                            dd { ul { @for advice in row.recommendations { li { (printable(advice)) } } } }
                        }
                        dt { "See" }
                        dd {
                            ol.sights {
                                @for (m, s) in sights(self.a, incident).iter().enumerate() {
                                    li {
                                        a href=(format!("#see-{n}-{m}")) { (self.at(s.start_ns)) }
                                        @if let Some(layer) = s.layer { " " span.layer { (layer) } }
                                        " " (printable(&s.text))
                                    }
                                }
                            }
                        }
                    }
                    p.kind { (row.kind) @if let Some(op) = row.op { ", " (printable(op)) } }
                }
            }
        }
    }

    fn timeline(&self) -> Markup {
        html! {
            section #timeline aria-labelledby="h-timeline" {
                h2 #h-timeline { "Timeline" }
                noscript { p { "The timeline is drawn by a script, which is off. Everything else on this page is here without it." } }
                div #timeline-here {}
                @for note in self.notes { p.note { (printable(note)) } }
            }
        }
    }

    fn phases(&self, report: &Report) -> Markup {
        let phases = self.a.phases.iter().filter(|p| self.wanted(p.phase.process));
        html! {
            @if !report.phases.is_empty() {
                section #phases aria-labelledby="h-phases" {
                    h2 #h-phases { "Phases" }
                    p.note { "A phase is a stretch in which a process behaves in one way. In a gap its GPU was given nothing new to do; only those of " (report::lost_from()) " and more count as lost time." }
                    div.scroll {
                        table.sortable {
                            caption { "Phases, and what the submitting thread did in their gaps" }
                            thead { tr {
                                th.n scope="col" { "phase" } th scope="col" { "process" } th scope="col" { "what" }
                                th.n scope="col" { "from" } th.n scope="col" { "length" } th.n scope="col" { "submissions" }
                                th.n scope="col" { "gaps" } th.n scope="col" { "share" } th.n scope="col" { "of " (report::lost_from()) " and more" } th.n scope="col" { "ran" }
                                th.n scope="col" { "runnable" } th.n scope="col" { "throttled" } th.n scope="col" { "blocked" }
                            } }
                            tbody { @for row in &report.phases { (self.phase(row)) } }
                        }
                    }
                    ul.told {
                        @for p in phases {
                            @let sample = p.phase.sample.as_ref().map_or(Vec::new(), |s| report::sample::sentences(p, s));
                            @let unclaimed = report::unclaimed(self.a, p, self.options.wall);
                            @let silence = report::silence::sentences(self.a, p, self.options.wall);
                            @let busy = p.busy.map(|busy| busy.words());
                            @for sentence in sample.into_iter().chain(unclaimed).chain(silence).chain(busy).chain(report::waited(self.a, p)) {
                                li { b { "Phase " (p.number) ": " } (printable(&sentence)) }
                            }
                        }
                    }
                }
            }
        }
    }

    fn phase(&self, row: &PhaseRow) -> Markup {
        let g = &row.gaps;
        html! {
            tr {
                td.n data-v=(row.id) { (row.id) }
                th scope="row" { bdi { (printable(row.process)) } " (" (row.pid) ")" }
                td { (printable(&row.label)) }
                td.n data-v=(row.start_ns) { (self.since_start(row.start_ns)) }
                (figure(Some(row.end_ns - row.start_ns), duration))
                (figure(row.submissions, count))
                (figure(g.sum_ns, duration))
                @match g.share {
                    Some(share) => td.n data-v=(share) { (percent(share)) " %" },
                    None => (figure(None, count)),
                }
                (figure(g.lost_ns, duration)) (figure(g.running_ns, duration)) (figure(g.runnable_ns, duration))
                (figure(g.throttled_ns, duration)) (figure(g.blocked_ns, duration))
            }
        }
    }

    /// The processes of the report, each with its place in the analysis, those that matter first.
    fn ordered<'r>(&self, report: &'r Report<'r>) -> Vec<(ProcessId, &'r ProcessRow<'r>)> {
        let ids = self.a.active().into_iter().filter(|&id| self.wanted(id));
        let rows: std::collections::BTreeMap<ProcessId, &ProcessRow> = ids.zip(&report.processes).collect();
        let order = report::shown(self.a, self.options.pids, &|id| self.wanted(id), usize::MAX - 1);
        order.into_iter().filter_map(|id| rows.get(&id).map(|row| (id, *row))).collect()
    }

    fn processes(&self, report: &Report) -> Markup {
        let ordered = self.ordered(report);
        let at_least = self.a.at_least();
        html! {
            section #processes aria-labelledby="h-processes" {
                h2 #h-processes { "Processes" }
                @if ordered.is_empty() { p { (report::nothing_of_processes(self.a, &|id| self.wanted(id))) } }
                @else {
                    p.note { "Runnable: could run, had no CPU. Blocked: waited for something else. Worst: longest stay off a CPU."
                        @if at_least.states || at_least.page_allocs { " " (LEAST) }
                    }
                    div.scroll {
                        table.sortable {
                            caption { "What the threads of each process did" }
                            thead { tr {
                                th scope="col" { "process" } th.n scope="col" { "threads" } th.n scope="col" { "on CPU" }
                                th.n scope="col" { "runnable" } th.n scope="col" { "throttled" } th.n scope="col" { "blocked" }
                                th.n scope="col" { "worst" } th.n scope="col" { "switches" } th.n scope="col" { "pages" }
                                th scope="col" { "mostly behind" }
                            } }
                            tbody {
                                @for (id, row) in ordered.iter().take(PROCESSES) {
                                    @let least = self.a.at_least_of(*id);
                                    @let state = |value, show: fn(u64) -> String| figure_of(value, least.states, show);
                                    @let switch = |value, show: fn(u64) -> String| figure_of(value, least.switches, show);
                                    tr data-pid=(row.pid) {
                                        th scope="row" {
                                            span title=[row.args.or(row.exe).map(printable)] { bdi { (printable(row.name)) } " (" (row.pid) ")" }
                                        }
                                        (figure(Some(row.threads as u64), count))
                                        (switch(row.on_cpu_ns, duration))
                                        (state(row.off_cpu.runnable_ns, duration))
                                        (state(row.off_cpu.throttled_ns, duration))
                                        (state(row.off_cpu.blocked_ns, duration))
                                        (state(row.off_cpu.max_ns, duration))
                                        (switch(row.context_switches, count))
                                        (figure_of(row.page_allocs.count, least.page_allocs, count))
                                        td.behind {
                                            @for (n, b) in row.runnable_behind.iter().take(2).enumerate() {
                                                @if n > 0 { ", " }
                                                bdi { (printable(&b.name)) } " (" (b.pid) ") " (duration(b.ns))
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                    @if ordered.len() > PROCESSES {
                        p.note { (count((ordered.len() - PROCESSES) as u64)) " more processes are left out; --format json has all, --pid picks some." }
                    }
                }
            }
        }
    }

    fn calls(&self, report: &Report) -> Markup {
        let callers: Vec<_> = self.ordered(report).into_iter().filter(|(_, row)| !row.ops.is_empty()).collect();
        let at_least = self.a.at_least();
        html! {
            @if !callers.is_empty() {
                section #calls aria-labelledby="h-calls" {
                    h2 #h-calls { "Calls" }
                    p.note { "A runtime call holds the driver call that it makes: the two are not to be added up."
                        @if at_least.calls || at_least.states { " " (LEAST) }
                    }
                    @for (id, row) in callers.iter().take(CALLERS) { (self.caller(*id, row)) }
                    @if callers.len() > CALLERS {
                        p.note { (count((callers.len() - CALLERS) as u64)) " more processes with calls are left out; --pid picks some." }
                    }
                }
            }
        }
    }

    fn caller(&self, id: ProcessId, row: &ProcessRow) -> Markup {
        let (figures, at_least) = (self.a.figures(id), self.a.at_least_of(id));
        let state = |value| figure_of(value, at_least.calls || at_least.states, duration);
        let ran = |value| figure_of(value, at_least.calls || at_least.switches, duration);
        let call = |value, show: fn(u64) -> String| figure_of(value, at_least.calls, show);
        let mut ops: Vec<(&Op, Option<&crate::OpFigures>)> =
            row.ops.iter().zip(self.a.ops(id)).map(|(op, (func, _))| (op, figures.ops.get(&func))).collect();
        ops.sort_by_key(|(op, _)| (std::cmp::Reverse(op.sum_ns), &op.name));
        html! {
            h3 { bdi { (printable(row.name)) } " (" (row.pid) ")" }
            div.scroll {
                table.sortable {
                    caption { "Calls of " bdi { (printable(row.name)) } " (" (row.pid) ")" }
                    thead { tr {
                        th scope="col" { "function" } th scope="col" { "layer" } th.n scope="col" { "count" } th.n scope="col" { "total" }
                        th.n scope="col" { "mean" } th.n scope="col" { "p50" } th.n scope="col" { "p95" } th.n scope="col" { "p99" }
                        th.n scope="col" { "max" } th.n scope="col" { "ran" } th.n scope="col" { "runnable" } th.n scope="col" { "blocked" }
                        th.n scope="col" { "bytes" } th.n scope="col" { "errors" } th.n scope="col" { "unreturned" }
                    } }
                    tbody {
                        @for (op, _) in &ops {
                            tr {
                                th scope="row" { (printable(&op.name)) }
                                td { (op.layer) }
                                (call(op.count, count)) (call(op.sum_ns, duration)) (figure(op.mean_ns, duration))
                                (figure(op.p50_ns, duration)) (figure(op.p95_ns, duration)) (figure(op.p99_ns, duration))
                                (call(op.max_ns, duration)) (ran(op.running_ns)) (state(op.runnable_ns))
                                (state(op.blocked_ns)) (call(op.bytes, bytes)) (call(op.errors, count))
                                (call(op.unreturned, count))
                            }
                        }
                    }
                }
            }
            @if self.a.sampled_of(id) {
                p.note { "The source stored a sample of the calls: how long the others took is not known, and no histogram is drawn." }
            } @else {
                div.histograms {
                    @for (op, figures) in ops.iter().take(HISTOGRAMS) {
                        @if let Some(f) = figures && !f.durations_ns.is_empty() {
                            figure {
                                figcaption { (printable(&op.name)) " " small { (count(f.count())) } }
                                (charts::histogram(&f.durations_ns, &[("p50", op.p50_ns), ("p95", op.p95_ns), ("p99", op.p99_ns)]))
                            }
                        }
                    }
                }
                p.note { "Durations of all calls, both scales logarithmic; lines at p50, p95 and p99." }
            }
        }
    }

    fn cpus(&self) -> Markup {
        let (a, on_cpus) = (self.a, &self.gathered.on_cpus);
        let hosts = Hosts::new(a.trace);
        let of_hosts: Vec<HostCpus> = (0..hosts.count()).map(|host| HostCpus::new(a, &hosts, host)).collect();
        let of_cpu = |cpu: u32| of_hosts.get(hosts.of_cpu(cpu)).cloned().unwrap_or_default();
        let unseen = (0..hosts.count()).filter(|_| hosts.are_several()).filter(|&host| !a.knows_states_of_host(host));
        let busiest = busiest(self.gathered);
        let at_least = of_hosts.iter().any(|host| host.at_least);
        html! {
            @if !a.knows_states() && !a.sampled() && (a.has(Kind::Switch) || a.lacks(Kind::Switch)) {
                section #cpus aria-labelledby="h-cpus" {
                    h2 #h-cpus { "CPU occupancy" }
                    p.note { "Who was on the CPUs is not known: no context switch can be read." }
                }
            } @else if !on_cpus.is_empty() {
                section #cpus aria-labelledby="h-cpus" {
                    h2 #h-cpus { "CPU occupancy" }
                    @if at_least { p.note { (LEAST) } }
                    ul.legend {
                        @for (n, &id) in busiest.iter().enumerate() {
                            li { svg.swatch viewBox="0 0 10 10" aria-hidden="true" { rect class=(format!("p{n}")) width="10" height="10" {} } (a.label(id)) }
                        }
                        li { svg.swatch viewBox="0 0 10 10" aria-hidden="true" { rect.others width="10" height="10" {} } "others" }
                    }
                    div.scroll {
                        table.sortable.cpus {
                            caption {
                                "Who was on each CPU, over "
                                @if hosts.are_several() { "what its host recorded of the range" } @else { (duration(a.window.len_ns())) }
                            }
                            thead { tr { @if hosts.are_several() { th scope="col" { "host" } } th.n scope="col" { "CPU" } th.n scope="col" { "busy" } th.n scope="col" { "share" } th scope="col" { "by whom" } th scope="col" { "most" } } }
                            tbody {
                                @for (cpu, who) in on_cpus.iter().take(CPUS) {
                                    @let busy = crate::sum(who.values().copied());
                                    @let host = of_cpu(*cpu);
                                    @let share = |ns: u64| host.share(ns);
                                    @let most = who.iter().max_by_key(|(id, ns)| (**ns, std::cmp::Reverse(**id)));
                                    tr {
                                        @if let Some(label) = &host.label { td { (printable(label)) } }
                                        th.n scope="row" data-v=(cpu) { (cpu) }
                                        (figure_of(Some(busy), host.at_least, duration))
                                        td.n data-v=(share(busy)) { (share_text(share(busy), host.at_least)) }
                                        td.occupancy { (charts::divided(&parts(a, &busiest, who, busy, &share))) }
                                        td { @if let Some((id, ns)) = most { (a.label(*id)) " " (duration(*ns)) } }
                                    }
                                }
                            }
                        }
                    }
                    @for host in unseen {
                        p.note { "Who was on the CPUs" (ingero_replay::of_host(&hosts, Some(host))) " is not known: no context switch can be read." }
                    }
                    @if on_cpus.len() > CPUS { p.note { (on_cpus.len() - CPUS) " more CPUs are left out." } }
                }
            }
        }
    }

    fn counters(&self) -> Markup {
        let (from, to) = (self.a.window.from_ns, self.a.window.from_ns + self.a.window.len_ns());
        // A counter that stands at nothing all the time says so in one line.
        let (still, moving): (Vec<_>, Vec<_>) =
            self.gathered.counters.iter().partition(|(_, list)| list.iter().all(|s| s.1 == 0));
        html! {
            @if !self.gathered.counters.is_empty() {
                section #counters aria-labelledby="h-counters" {
                    h2 #h-counters { "Counters" }
                    div.counters {
                        @for (name, list) in moving {
                            (charts::counter(name, list, from, to, |milli| thousandths(name, milli)))
                        }
                    }
                    @if !still.is_empty() {
                        p.note { "0 all the time: " (still.iter().map(|(name, _)| name.as_ref()).collect::<Vec<_>>().join(", ")) "." }
                    }
                }
            }
        }
    }

    fn foot(&self) -> Markup {
        html! {
            footer {
                p { "Made by ingero-analyze " (env!("CARGO_PKG_VERSION")) ". Figures are those of --format json, whose meaning is in spec/semantics.md. "
                    "This file loads nothing and sends nothing." }
            }
        }
    }
}

/// What is said of the CPUs of one host.
#[derive(Debug, Clone, Default)]
struct HostCpus {
    /// Its name, where there are several.
    label: Option<String>,
    /// As much of the range as it recorded.
    len_ns: u64,
    /// Whether the time on its CPUs is the least that there was.
    at_least: bool,
}

impl HostCpus {
    fn new(a: &Analysis, hosts: &Hosts, host: usize) -> Self {
        let at_least = a.at_least_of_host(host).switches;
        match hosts.get(host).filter(|_| hosts.are_several()) {
            Some(own) => {
                let (from_ns, to_ns) = (a.window.from_ns, a.window.from_ns.saturating_add(a.window.len_ns()));
                let len_ns = to_ns.min(own.span_ns.1).saturating_sub(from_ns.max(own.span_ns.0));
                Self { label: Some(own.label.clone()), len_ns, at_least }
            }
            None => Self { label: None, len_ns: a.window.len_ns(), at_least },
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.len_ns.max(1) as f64
    }
}

/// A share in percent. Where it is the least, and that is next to nothing, no number is told.
fn share_text(share: f64, at_least: bool) -> String {
    match percent(share) {
        _ if at_least && share > 0.0 && share < 0.005 => "some".to_owned(),
        // `more than 99` says so itself.
        text => format!("{} %", report::least(at_least && text.parse::<u32>().is_ok_and(|n| n > 0), &text)),
    }
}

/// What each process had of a CPU, for a bar: the busiest by themselves, the rest as one.
fn parts(
    a: &Analysis,
    busiest: &[ProcessId],
    who: &std::collections::BTreeMap<ProcessId, u64>,
    busy: u64,
    share: &impl Fn(u64) -> f64,
) -> Vec<(String, String, f64)> {
    let mut out = Vec::new();
    let mut rest = busy;
    for (n, id) in busiest.iter().enumerate() {
        if let Some(&ns) = who.get(id) {
            rest = rest.saturating_sub(ns);
            out.push((format!("p{n}"), format!("{} {}", a.label(*id), duration(ns)), share(ns)));
        }
    }
    out.push(("others".to_owned(), format!("others {}", duration(rest)), share(rest)));
    out
}

/// A counter's value as its name says: a share, a size, or a number.
fn thousandths(name: &str, milli: u64) -> String {
    if name.contains("bytes") {
        return bytes(milli / 1000) + if name.ends_with("/s") { "/s" } else { "" };
    }
    let unit = if name.ends_with('%') { " %" } else { "" };
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let value = milli as f64 / 1000.0;
    if milli.is_multiple_of(1000) || value >= 100.0 { format!("{value:.0}{unit}") } else { format!("{value:.2}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::{share_text, unbroken};

    #[test]
    fn the_least_of_next_to_nothing_is_no_number() {
        let told = [0.0, 0.002, 0.12, 0.999].map(|share| share_text(share, true));
        assert_eq!(told, ["0 %", "some", "≥12 %", "more than 99 %"].map(str::to_owned));
        assert_eq!(share_text(0.002, false), "less than 1 %");
        let figures = [0, 12].map(|n| super::figure_of(Some(n), true, |n| n.to_string()).into_string());
        assert!(figures[0].ends_with(">0</td>") && figures[1].ends_with(">≥12</td>"), "{figures:?}");
    }

    #[test]
    fn a_figure_and_its_unit_stay_on_one_line() {
        let page = "<p title=\"1 s\">1.5 s of 3 min 2 ms; 5 % of 2 such, 7 should</p><bdi>9 s</bdi><td>1,024 KiB</td><script>1 s</script>1 s";
        let expected = page
            .replace(">1.5 s of 3 min 2 ms; 5 % of", ">1.5\u{a0}s of 3\u{a0}min 2\u{a0}ms; 5\u{a0}% of")
            .replace("1,024 KiB", "1,024\u{a0}KiB");
        assert_eq!(unbroken(page), expected);
    }
}

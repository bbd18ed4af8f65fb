//! Pictures that need no script: histograms of call durations, what each CPU was busy with, counters over time.

use std::fmt::Write;

use maud::{Markup, html};

use crate::report::{count, duration};

/// Buckets of a histogram for each factor of ten.
const PER_DECADE: u32 = 6;

/// One bar of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Durations from here on.
    pub(super) from_ns: u64,
    /// Up to here; this one excluded.
    pub(super) to_ns: u64,
    /// How many.
    pub(super) count: u64,
}

/// The first duration of a bucket: the smallest whole number that is not below the `at`-th step of the scale.
fn bound(at: u32) -> u64 {
    let value = 10f64.powf(f64::from(at) / f64::from(PER_DECADE));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number, saturating")]
    let whole = (value - 1e-12 * value).ceil() as u64;
    whole
}

/// The exact counts of sorted durations on a scale of powers of ten: every bucket from the first to the last that holds
/// any.
pub(super) fn buckets(sorted_ns: &[u64]) -> Vec<Bucket> {
    let mut out: Vec<Bucket> = Vec::new();
    let mut rest = sorted_ns;
    let mut at = 0;
    while !rest.is_empty() {
        // What takes no time stands with what takes a nanosecond.
        let (from_ns, to_ns) = (if at == 0 { 0 } else { bound(at) }, bound(at + 1));
        at += 1;
        let to_ns = if to_ns == u64::MAX { u64::MAX } else { to_ns };
        if to_ns <= from_ns && to_ns < u64::MAX {
            continue;
        }
        let inside = if to_ns == u64::MAX { rest.len() } else { rest.partition_point(|&ns| ns < to_ns) };
        if inside > 0 || !out.is_empty() {
            out.push(Bucket { from_ns, to_ns, count: inside as u64 });
        }
        rest = rest.get(inside..).unwrap_or_default();
    }
    out
}

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 96.0;
const BASE: f64 = 78.0;

#[expect(clippy::cast_precision_loss, reason = "a picture")]
fn real(n: u64) -> f64 {
    n as f64
}

/// A place in a picture, to a tenth of a pixel.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A histogram of the durations of one function's calls, both scales logarithmic, with marks at the percentiles.
pub(super) fn histogram(sorted_ns: &[u64], marks: &[(&str, Option<u64>)]) -> Markup {
    let bars = buckets(sorted_ns);
    let most = bars.iter().map(|b| b.count).max().unwrap_or(1);
    let step = WIDTH / bars.len().max(1) as f64;
    // One call is seen beside a million.
    let height = |n: u64| if n == 0 { 0.0 } else { 4.0 + (BASE - 16.0) * (real(n).ln_1p() / real(most).ln_1p()) };
    let place = |ns: u64| {
        let at = bars.iter().position(|b| ns < b.to_ns).unwrap_or(bars.len().saturating_sub(1));
        bars.get(at).map_or(0.0, |b| {
            let (low, high) = (real(b.from_ns.max(1)).ln(), real(b.to_ns).ln());
            let within = ((real(ns.max(1)).ln() - low) / (high - low).max(1e-9)).clamp(0.0, 1.0);
            step * (at as f64 + within)
        })
    };
    let (first, last) = (bars.first().map_or(0, |b| b.from_ns), bars.last().map_or(0, |b| b.to_ns));
    let told: Vec<String> =
        marks.iter().filter_map(|(name, ns)| ns.map(|ns| format!("{name} {}", duration(ns)))).collect();
    let label = format!(
        "{} calls from {} to {}: {}",
        count(sorted_ns.len() as u64),
        duration(first),
        duration(last),
        told.join(", ")
    );
    html! {
        svg.histogram viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(label) {
            @for (at, bar) in bars.iter().enumerate() {
                rect.bar x=(px(step * at as f64 + 0.5)) width=(px((step - 1.0).max(0.6))) y=(px(BASE - height(bar.count)))
                    height=(px(height(bar.count))) data-count=(bar.count) {
                    title { (duration(bar.from_ns)) " to " (duration(bar.to_ns)) ": " (count(bar.count)) }
                }
            }
            line.axis x1="0" x2=(WIDTH) y1=(BASE) y2=(BASE) {}
            @for (name, ns) in marks.iter().filter_map(|(name, ns)| ns.map(|ns| (name, ns))) {
                line.mark x1=(px(place(ns))) x2=(px(place(ns))) y1="10" y2=(BASE) {}
                @let near = marks.first().and_then(|m| m.1).is_some_and(|p50| *name != "p50" && (place(ns) - place(p50)).abs() < 26.0);
                @if *name != "p95" && !near { text.mark x=(px(place(ns).clamp(9.0, WIDTH - 12.0))) y="8" text-anchor="middle" { (name) } }
            }
            text x="0" y=(HEIGHT - 4.0) { (duration(first)) }
            text x=(WIDTH) y=(HEIGHT - 4.0) text-anchor="end" { (duration(last)) }
            text x=(WIDTH / 2.0) y=(HEIGHT - 4.0) text-anchor="middle" { "most in a bar: " (count(most)) }
        }
    }
}

/// A bar divided into parts: class and label of each with its share; what is left is empty.
pub(super) fn divided(parts: &[(String, String, f64)]) -> Markup {
    let placed = parts.iter().scan(0.0, |x, (class, label, share)| {
        let from = *x;
        *x += 100.0 * share;
        Some((from, class, label, share))
    });
    html! {
        svg.divided viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.idle x="0" y="0" width="100" height="10" {}
            @for (from, class, label, share) in placed {
                rect class=(class) x=(format!("{from:.2}")) y="0" width=(format!("{:.2}", 100.0 * share)) height="10" {
                    title { (label) }
                }
            }
        }
    }
}

/// A counter over time as a line of steps: each value holds until the next sample.
pub(super) fn counter(
    name: &str,
    samples: &[(u64, u64)],
    from_ns: u64,
    to_ns: u64,
    show: impl Fn(u64) -> String,
) -> Markup {
    /// Places that a line has at most: the lowest and the highest value of each are drawn.
    const PLACES: usize = 340;
    let highest = samples.iter().map(|s| s.1).max().unwrap_or(0);
    let top = real(highest).max(1.0);
    let x = |ts_ns: u64| WIDTH * real(ts_ns - from_ns) / real(to_ns.saturating_sub(from_ns).max(1));
    let y = |value: u64| BASE - (BASE - 12.0) * real(value) / top;
    let mut path = String::new();
    let mut before: Option<u64> = None;
    for chunk in samples.chunks(samples.len().div_ceil(PLACES).max(1)) {
        let low = chunk.iter().min_by_key(|s| s.1);
        let high = chunk.iter().max_by_key(|s| s.1);
        let mut two: Vec<_> = low.into_iter().chain(high).collect();
        two.sort();
        two.dedup();
        for &(ts_ns, value) in two {
            // Writing to a String cannot fail.
            let _ = match before {
                None => write!(path, "M{} {}", px(x(ts_ns)), px(y(value))),
                Some(_) => write!(path, "H{}V{}", px(x(ts_ns)), px(y(value))),
            };
            before = Some(value);
        }
    }
    if before.is_some() && samples.len() > 1 {
        let _ = write!(path, "H{WIDTH}");
    }
    let (first, last) = (samples.first().map_or(0, |s| s.1), samples.last().map_or(0, |s| s.1));
    let lowest = samples.iter().map(|s| s.1).min().unwrap_or(0);
    let label =
        format!("{name}: {} at first, {} at last, {} to {}", show(first), show(last), show(lowest), show(highest));
    html! {
        figure.counter {
            figcaption { (name) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(label) {
                line.axis x1="0" x2=(WIDTH) y1=(BASE) y2=(BASE) {}
                @if samples.len() == 1 { circle.dot cx=(px(x(samples[0].0))) cy=(px(y(samples[0].1))) r="2.5" {} }
                @else { path.line d=(path) {} }
                text x="0" y="9" { (show(highest)) }
                text x="0" y=(HEIGHT - 4.0) { "lowest " (show(lowest)) ", last " (show(last)) }
                text x=(WIDTH) y=(HEIGHT - 4.0) text-anchor="end" { (count(samples.len() as u64)) " samples" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_in_one_bucket() {
        let sorted = [0, 1, 2, 9, 10, 11, 999, 1000, 1_000_000, u64::MAX - 1, u64::MAX];
        let found = buckets(&sorted);
        assert_eq!(found.iter().map(|b| b.count).sum::<u64>(), sorted.len() as u64);
        for b in &found {
            let inside = sorted.iter().filter(|&&ns| ns >= b.from_ns && (ns < b.to_ns || b.to_ns == u64::MAX)).count();
            assert_eq!(b.count, inside as u64, "{b:?}");
        }
        for pair in found.windows(2) {
            assert_eq!(pair[0].to_ns, pair[1].from_ns);
        }
        // Powers of ten begin a bucket.
        assert!(found.iter().any(|b| b.from_ns == 1000) && found.iter().any(|b| b.from_ns == 1_000_000));
        assert_eq!(buckets(&[]), []);
    }

    #[test]
    fn a_picture_says_in_words_what_it_shows() {
        let text = histogram(&[1_500, 2_000, 40_000], &[("p50", Some(2_000)), ("p99", Some(40_000))]).into_string();
        assert!(text.contains("p50 2.00 us, p99 40.0 us"), "{text}");
        let counts = text.split("data-count=\"").skip(1).map(|t| t.split('"').next().unwrap().parse::<u64>().unwrap());
        assert_eq!(counts.sum::<u64>(), 3);
        let text = counter("load", &[(0, 5), (10, 9)], 0, 20, |n| n.to_string()).into_string();
        assert!(text.contains("load: 5 at first, 9 at last, 5 to 9"), "{text}");
    }
}

//! What another column held in the row before on the same CPU, with exceptions.

use super::cell::Cell;
use super::codec::Codec;
use super::numbers::{self, Forms, Numbers, TOO_LARGE, bits_of};
use super::runs_within;
use super::words::{Words, each};
use crate::bytes::{Malformed, Reader, Result, put_len};
use crate::layout::MAX_ROWS;

/// Rows that are compared together: mostly all of them follow.
const GROUP: usize = 16;

/// False where the prediction fails too often, and nothing is written. The words are as stored;
/// `shift` was added to each.
pub(super) fn write<T: Cell>(
    codec: &mut Codec,
    (cells, shift): (&[T], u64),
    leader: &Words,
    runs: &[u32],
    out: &mut Vec<u8>,
) -> bool {
    if leader.rows != cells.len() {
        return false;
    }
    let mut places = codec.shelf.take::<u32>();
    // What a cell of the leader is as a cell of the follower.
    let more = leader.base.wrapping_add(shift);
    let most = cells.len() / 4 * 3 + 3;
    each!(&leader.held, led => exceptions(cells, led, more, runs, most, &mut places), {
        let led = vec![0u8; leader.rows];
        exceptions(cells, &led, more, runs, most, &mut places);
    });
    let fits = places.len() * 4 <= cells.len() * 3;
    if fits {
        put_len(out, places.len());
        let mut before = 0;
        for &place in &places {
            put_len(out, (place - before) as usize);
            before = place;
        }
        let mut words = codec.shelf.take::<T>();
        words.extend(places.iter().filter_map(|&p| cells.get(p as usize)));
        numbers::write(codec, Numbers::plain(&words, bits_of(&words)), Forms::Planes, out);
        codec.shelf.put(words);
    }
    codec.shelf.put(places);
    fits
}

/// The rows that do not hold what their leader held before; no more than a few above `most`.
fn exceptions<T: Cell, L: Cell>(cells: &[T], led: &[L], more: u64, runs: &[u32], most: usize, places: &mut Vec<u32>) {
    #[expect(clippy::cast_possible_truncation, reason = "a block has at most MAX_ROWS rows")]
    let place = |at: usize| at as u32;
    let follows = |cell: T, leader: L| cell.wide() == leader.wide().wrapping_add(more);
    for run in runs_within(runs, cells.len()) {
        if places.len() > most {
            return;
        }
        let (own, led) = (cells.get(run.clone()).unwrap_or_default(), led.get(run.clone()).unwrap_or_default());
        if own.is_empty() {
            continue;
        }
        places.push(place(run.start));
        let own = own.get(1..).unwrap_or_default();
        let led = led.get(..own.len()).unwrap_or_default();
        let (groups, rest) = own.as_chunks::<GROUP>();
        let (led_groups, led_rest) = led.as_chunks::<GROUP>();
        let mut at = run.start + 1;
        for (group, led) in groups.iter().zip(led_groups) {
            let all = group.iter().zip(led).fold(true, |all, (&c, &l)| all & follows(c, l));
            if !all {
                let differ = group.iter().zip(led).enumerate().filter(|(_, (c, l))| !follows(**c, **l));
                places.extend(differ.map(|(i, _)| place(at + i)));
            }
            at += GROUP;
        }
        let differ = rest.iter().zip(led_rest).enumerate().filter(|(_, (c, l))| !follows(**c, **l));
        places.extend(differ.map(|(i, _)| place(at + i)));
    }
}

/// Reads the words, each counted from `base`; `min` is the smallest as stored.
pub(super) fn read<T: Cell>(
    codec: &mut Codec,
    r: &mut Reader,
    (rows, base, min, range): (usize, u64, u64, u64),
    leader: &Words,
    out: &mut Vec<T>,
) -> Result<()> {
    let count = r.count(rows)?;
    let mut places = codec.shelf.take::<u32>();
    let mut place = 0usize;
    for _ in 0..count {
        place += r.count(MAX_ROWS)?;
        if place >= rows {
            return Err(Malformed("an exception is outside of its block"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "a block has at most MAX_ROWS rows")]
        places.push(place as u32);
    }
    let mut exceptions = codec.shelf.take::<u64>();
    numbers::read(codec, r, count, &mut exceptions)?;
    if leader.rows != rows {
        return Err(Malformed("the column that it follows has another length"));
    }
    let more = T::cut(leader.base.wrapping_sub(base));
    out.clear();
    out.push(T::default());
    each!(&leader.held, led => shifted(led, more, out), out.resize(rows, more));
    for (&place, &word) in places.iter().zip(&exceptions) {
        let cell = word.wrapping_sub(min);
        if cell > range {
            return Err(TOO_LARGE);
        }
        if let Some(c) = out.get_mut(place as usize) {
            *c = T::cut(cell);
        }
    }
    codec.shelf.put(places);
    codec.shelf.put(exceptions);
    Ok(())
}

/// Appends all of the leader's words but the last.
fn shifted<T: Cell, L: Cell>(led: &[L], more: T, out: &mut Vec<T>) {
    let led = led.split_last().map_or(&[][..], |(_, led)| led);
    out.extend(led.iter().map(|l| T::cut(l.wide()).plus(more)));
}

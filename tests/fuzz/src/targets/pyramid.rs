//! The pyramid of a recording, and the file that it is kept in.

use ingero_format::Trace;
use ingero_replay::Processes;
use ingero_replay::pyramid::Pyramid;

use super::{EVENTS_AT_MOST, any, changed, opened};
use crate::dice::Dice;
use crate::memory;
use crate::seeds::Seeds;

/// Bytes of the file's header; the body's length decompressed, its CRC, and the header's own CRC are at its end.
const HEADER_LEN: usize = 64;
const RAW_LEN_AT: usize = 48;
const CRC_AT: usize = 56;
/// Bodies up to this size are changed.
const BODY_AT_MOST: usize = 64 << 20;

/// A pyramid adds up and survives its file, where it is kept at all for a broken recording; a broken file is refused, or adds up too.
pub(super) fn pyramid(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let broken_recording = dice.one_in(2);
    let bytes = if broken_recording { changed(seeds, dice) } else { any(seeds, dice).unchanged() };
    let Some(trace) = opened(seeds, &bytes) else { return Ok(0) };
    let rows = trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum();
    if rows > EVENTS_AT_MOST {
        return Ok(rows);
    }
    let built = Pyramid::build(&trace, &mut |_| {});
    adds_up(&trace, &built, dice)?;
    let path = seeds.folder.path().join("input.igt.pyramid");
    built.keep(&trace, &path).map_err(|e| e.to_string())?;
    match Pyramid::open(&trace, &path) {
        Some(read) if read == built => {}
        // What a broken recording gives may be refused later, and is then built anew.
        None if broken_recording => {}
        _ => return Err("a pyramid does not survive its file".to_owned()),
    }
    if !broken_recording {
        let file = std::fs::read(&path).map_err(|e| e.to_string())?;
        let (file, claimed) = spoilt(&file, dice)?;
        std::fs::write(&path, &file).map_err(|e| e.to_string())?;
        let (read, peak) = memory::peak_of(|| Pyramid::open(&trace, &path));
        // Beside the file, its cells take what they take decompressed, twice over while they are put in order.
        let most = 8 * claimed + 4 * file.len() + (16 << 20);
        if peak > most {
            return Err(format!("{claimed} bytes of cells took {} MiB", peak >> 20));
        }
        if let Some(read) = read {
            adds_up(&trace, &read, dice)?;
        }
    }
    Ok(rows.max(1))
}

/// A changed file with its CRCs put right, and the bytes of its body.
fn spoilt(file: &[u8], dice: &mut Dice) -> Result<(Vec<u8>, usize), String> {
    let text = |e: std::io::Error| e.to_string();
    let (header, packed) = file.split_at_checked(HEADER_LEN).ok_or("a file without a header")?;
    let mut header = header.to_vec();
    let mut body = zstd::bulk::decompress(packed, BODY_AT_MOST).map_err(text)?;
    match dice.below(8) {
        0 => dice.spoil_in_place(&mut header, 2),
        1 => dice.spoil(&mut body),
        // A word of those that say how much there is, which stand first.
        2 => {
            let (at, word) = (dice.below(8) * 4, dice.any_word().to_le_bytes());
            body.iter_mut().skip(at).zip(word).take(4).for_each(|(to, from)| *to = from);
        }
        _ => dice.spoil_in_place(&mut body, 3),
    }
    let claimed = if dice.one_in(16) { usize::try_from(dice.any_word()).unwrap_or(usize::MAX) } else { body.len() };
    let mut packed = zstd::bulk::compress(&body, 1).map_err(text)?;
    if dice.one_in(16) {
        dice.spoil(&mut packed);
    }
    let mut put = |at: usize, bytes: &[u8]| header.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
    put(RAW_LEN_AT, &(claimed as u64).to_le_bytes());
    put(CRC_AT, &crc32c::crc32c(&packed).to_le_bytes());
    let own = crc32c::crc32c(&header[..HEADER_LEN - 4]).to_le_bytes();
    header.iter_mut().skip(HEADER_LEN - 4).zip(own).for_each(|(to, from)| *to = from);
    header.extend(packed);
    Ok((header, body.len()))
}

/// No column holds more than its width, and columns add up to their range.
fn adds_up(trace: &Trace, pyramid: &Pyramid, dice: &mut Dice) -> Result<(), String> {
    let (start, end) = pyramid.span_ns();
    let columns = 1 + dice.below(40);
    let length = end - start;
    let some = |dice: &mut Dice| start + if length == 0 { 0 } else { dice.word() % length };
    let (a, b) = (some(dice), some(dice));
    for task in pyramid.tasks() {
        let whole = pyramid.cell(task, start, end);
        let (mut spent_ns, mut call_ns) = (0, 0);
        for cell in pyramid.row(task, start, end, columns) {
            spent_ns += cell.known_ns();
            call_ns += cell.call_ns;
            // Each of the five parts may be rounded up.
            if cell.known_ns() > cell.width_ns.saturating_add(5) || cell.call_ns > cell.width_ns.saturating_add(1) {
                return Err(format!("a column holds more than its width: {cell:?}"));
            }
        }
        if spent_ns != whole.known_ns() || call_ns != whole.call_ns {
            return Err(format!("columns of {task:?} do not add up"));
        }
        let _ = pyramid.row(task, a.min(b), a.max(b), columns);
        if let Some(steady) = pyramid.steady(task, a)
            && !(steady.from_ns <= a && a <= steady.to_ns)
        {
            return Err(format!("{a} is not within {steady:?}"));
        }
        let _ = pyramid.state_at_cell_start(task, b);
    }
    for cpu in pyramid.cpus() {
        let _ = pyramid.cpu_row(cpu, start, end, columns);
    }
    let _ = pyramid.groups(&Processes::new(trace));
    Ok(())
}

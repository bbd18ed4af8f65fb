//! Frame numbers of pages: the typed tracepoint hands over a pointer to `struct page`, and the kernel does not say where
//! the array of these lies. So one thread gets pages for itself and looks up their frames.

use std::{
    fs::File,
    os::{fd::AsFd, unix::fs::FileExt},
};

use ingero_ebpf_common::FrameCell;

use super::{
    Error,
    btf::Btf,
    object::{Hook, Loaded},
    sys,
};

/// Pages that must agree.
const TRIES: usize = 4;
/// Bits of an entry of `/proc/self/pagemap`.
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// Fills in the cell that `mm_page_alloc` reads. Without success the frames stay unknown, which costs nothing else: it
/// needs to be told frame numbers, which the kernel tells to holders of `CAP_SYS_ADMIN` alone.
pub(super) fn find_frames(object: &Loaded, btf: &Btf, page_bytes: u32) -> Result<(), Error> {
    let (Some((id, _)), Ok(pagemap)) = (btf.tracepoint("mm_page_alloc"), File::open("/proc/self/pagemap")) else {
        return Ok(());
    };
    let failed = |source| Error::os("finding out frame numbers", source);
    let cells = object.map("FRAMES")?;
    let Ok(program) = object.program("page_frame", Hook::Typed(id)) else { return Ok(()) };
    let Ok(link) = sys::raw_tracepoint_open(program.as_fd(), None) else { return Ok(()) };
    let mut found: Option<u64> = None;
    for _ in 0..TRIES {
        let watched = FrameCell { tid: sys::thread_id(), ..FrameCell::default() };
        sys::map_update(cells.as_fd(), &0_u32, bytemuck::bytes_of(&watched)).map_err(failed)?;
        let frame = sys::with_new_page(|address| frame_at(&pagemap, address)).map_err(failed)?;
        let mut cell = FrameCell::default();
        sys::map_lookup(cells.as_fd(), &0_u32, bytemuck::bytes_of_mut(&mut cell)).map_err(failed)?;
        let base = frame.and_then(|frame| cell.page.checked_sub(frame.checked_mul(u64::from(page_bytes))?));
        match (base, found) {
            (Some(base), None) if cell.page != 0 => found = Some(base),
            (Some(base), Some(before)) if base == before => {}
            _ => {
                found = None;
                break;
            }
        }
    }
    drop(link);
    let cell = FrameCell { base: found.unwrap_or(0), ..FrameCell::default() };
    sys::map_update(cells.as_fd(), &0_u32, bytemuck::bytes_of(&cell)).map_err(failed)
}

/// `None`: not there, or not to be told.
fn frame_at(pagemap: &File, address: u64) -> Option<u64> {
    let mut entry = [0; 8];
    let at = address / u64::try_from(sys::page_bytes()).ok()?;
    pagemap.read_exact_at(&mut entry, at.checked_mul(8)?).ok()?;
    let entry = u64::from_ne_bytes(entry);
    Some(entry & FRAME).filter(|frame| entry & PRESENT != 0 && *frame != 0)
}

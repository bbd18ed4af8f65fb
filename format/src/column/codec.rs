//! Compressor, decompressor and scratch space, reused from block to block.

use zstd::zstd_safe::CParameter;

use super::places::Places;
use super::words::Shelf;
use crate::bytes::{Malformed, Result};
use crate::error::Error;

/// Bytes of a match at least, at the levels that a recorder uses: one less than zstd takes for a plane of 64 Ki rows.
const SHORTEST_MATCH: u32 = 5;

/// Compressor, decompressor and scratch space, reused from block to block.
pub(crate) struct Codec {
    compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
    frame: Vec<u8>,
    pub(super) packed: Vec<u8>,
    pub(super) places: Places,
    pub(crate) shelf: Shelf,
    /// Whether every form is tried on all values.
    pub(super) thorough: bool,
}

impl Codec {
    pub(crate) fn new(level: i32) -> std::result::Result<Self, Error> {
        let failed = |e| Error::io("starting zstd", e);
        let mut compressor = zstd::bulk::Compressor::new(level).map_err(failed)?;
        // Of the planes that are stored here, many repeat no more than five bytes at a time.
        if (1..=2).contains(&level) {
            compressor.set_parameter(CParameter::MinMatch(SHORTEST_MATCH)).map_err(failed)?;
        }
        Ok(Self {
            compressor,
            decompressor: zstd::bulk::Decompressor::new().map_err(failed)?,
            frame: Vec::new(),
            packed: Vec::new(),
            places: Places::default(),
            shelf: Shelf::default(),
            thorough: false,
        })
    }

    pub(crate) fn thorough(self, thorough: bool) -> Self {
        Self { thorough, ..self }
    }

    /// One zstd frame of `bytes`; none where zstd fails, and the bytes are stored as they are.
    pub(crate) fn compress(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        self.frame.clear();
        self.frame.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        self.compressor.compress_to_buffer(bytes, &mut self.frame).ok()?;
        Some(&self.frame)
    }

    /// Decompresses one frame of exactly `len` bytes. `len` was checked against a cap.
    pub(crate) fn decompress(&mut self, frame: &[u8], len: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.reserve(len);
        let n = self.decompressor.decompress_to_buffer(frame, out).map_err(|_| Malformed("a zstd frame is broken"))?;
        if n == len { Ok(()) } else { Err(Malformed("a zstd frame has the wrong length")) }
    }
}

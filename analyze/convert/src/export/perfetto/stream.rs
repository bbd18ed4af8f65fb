//! A trace file as a stream of packets.
//!
//! Packets are packed some at a time, as Perfetto's own recorder does it when it is told to: what packets repeat (names and
//! tracks by number, times that begin alike) is most of them. A file that is cut off loses the packets that are packed with
//! the first one that it lacks, no more.

use std::io::{self, Write};

use flate2::{Compress, Compression, FlushCompress};
use prost::Message;
use prost::encoding::encode_varint;

use super::proto::{Data, TracePacket};

/// Field 1 of the trace, a message.
const PACKET_TAG: u8 = 0x0a;
/// Bytes that are packed together.
const FULL: usize = 1 << 16;

/// Writes packets one after another. The first error stays and ends all writing.
pub(super) struct PacketStream<W: Write> {
    out: W,
    buffer: Vec<u8>,
    full: usize,
    pack: Compress,
    failed: Option<io::Error>,
}

impl<W: Write> PacketStream<W> {
    pub(super) fn new(out: W) -> Self {
        Self::packing(out, FULL)
    }

    /// Packs so many bytes together.
    pub(super) fn packing(out: W, full: usize) -> Self {
        // The level that costs the least: higher ones save a seventh more, and take twice as long.
        let pack = Compress::new(Compression::fast(), true);
        Self { out, buffer: Vec::with_capacity(full + FULL), full, pack, failed: None }
    }

    pub(super) fn packet(&mut self, packet: &TracePacket) {
        put(packet, &mut self.buffer);
        if self.buffer.len() >= self.full {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.failed.is_none()
            && !self.buffer.is_empty()
            && let Err(e) = self.write_packed()
        {
            self.failed = Some(e);
        }
        self.buffer.clear();
    }

    fn write_packed(&mut self) -> io::Result<()> {
        self.pack.reset();
        // Bytes that cannot be packed take a few more in each 16 KiB, and a frame around all.
        let mut packed = Vec::with_capacity(self.buffer.len() + self.buffer.len() / 1024 + 128);
        loop {
            let taken = usize::try_from(self.pack.total_in()).unwrap_or(usize::MAX);
            let rest = self.buffer.get(taken..).unwrap_or_default();
            match self.pack.compress_vec(rest, &mut packed, FlushCompress::Finish)? {
                flate2::Status::StreamEnd => break,
                _ => packed.reserve(FULL),
            }
        }
        let mut bytes = Vec::with_capacity(packed.len() + 16);
        put(&TracePacket { data: Some(Data::CompressedPackets(packed)), ..TracePacket::default() }, &mut bytes);
        self.out.write_all(&bytes)
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        self.write();
        match self.failed {
            Some(e) => Err(e),
            None => self.out.flush(),
        }
    }
}

fn put(packet: &TracePacket, into: &mut Vec<u8>) {
    into.push(PACKET_TAG);
    encode_varint(packet.encoded_len() as u64, into);
    packet.encode_raw(into);
}

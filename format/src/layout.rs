//! The numbers of the file format. Each stands here once; a test compares them with the tables of
//! `spec/igt.md`.

/// First bytes of a file. Not text, and broken by a transfer that rewrites line ends.
pub const FILE_MAGIC: [u8; 8] = *b"\x89IGT\r\n\x1a\n";
/// Bytes of the file header.
pub const FILE_HEADER_LEN: usize = 32;
/// Readers refuse another major version.
pub const VERSION_MAJOR: u16 = 1;
/// Grows with additions that older readers may ignore.
pub const VERSION_MINOR: u16 = 0;

/// First bytes of a chunk: what a scan for the next whole chunk looks for.
pub const CHUNK_MAGIC: [u8; 4] = *b"\xc9igt";
/// Bytes of a chunk header.
pub const CHUNK_HEADER_LEN: usize = 56;
/// Chunks begin at multiples of this.
pub const CHUNK_ALIGN: usize = 8;

/// Chunk: the event kinds and their columns.
pub const CHUNK_SCHEMA: u8 = 1;
/// Chunk: keys and values about the recording.
pub const CHUNK_META: u8 = 2;
/// Chunk: strings, by rising id.
pub const CHUNK_STRINGS: u8 = 3;
/// Chunk: tasks, by rising id.
pub const CHUNK_TASKS: u8 = 4;
/// Chunk: probed functions, by rising id.
pub const CHUNK_FUNCTIONS: u8 = 5;
/// Chunk: rows of one event kind, by column.
pub const CHUNK_BLOCK: u8 = 6;
/// Chunk: the headers of all chunks before it.
pub const CHUNK_INDEX: u8 = 7;
/// Chunk: where the index is; the last of a complete file.
pub const CHUNK_FOOTER: u8 = 8;

/// Chunk flag: a reader that does not know the type may skip it.
pub const FLAG_ANCILLARY: u8 = 1;
/// Chunk flag: the payload is the raw length (u32) and one zstd frame.
pub const FLAG_ZSTD: u8 = 2;

/// Bytes of the footer's payload.
pub const FOOTER_PAYLOAD_LEN: usize = 32;
/// `index_offset` of a file with more chunks than one index can list: it is scanned.
pub const NO_INDEX: u64 = 0;
/// Bytes of an index entry: offset and header.
pub const INDEX_ENTRY_LEN: usize = 8 + CHUNK_HEADER_LEN;

/// `cpu` in the header of a block with rows of several CPUs, or of none.
pub const CPU_SEVERAL: u32 = u32::MAX;

/// Added to the transform of a column that is stored as nullable.
pub const CODE_NULLABLE: u8 = 0x80;

/// Column transform: every row holds the minimum; no payload.
pub const TRANSFORM_CONST: u8 = 0;
/// Column transform: distance from the minimum.
pub const TRANSFORM_OFFSET: u8 = 1;
/// Column transform: distance from the row before on the same CPU, never negative.
pub const TRANSFORM_RISE: u8 = 2;
/// Column transform: zigzag distance from the row before.
pub const TRANSFORM_STEP: u8 = 3;
/// Column transform: place in a dictionary of the block.
pub const TRANSFORM_DICT: u8 = 4;
/// Column transform: what another column held in the row before on the same CPU, with exceptions.
pub const TRANSFORM_FOLLOW: u8 = 5;
/// Column transform: run lengths.
pub const TRANSFORM_RUNS: u8 = 6;
/// Column transform: what this column held in the last row that agrees in other columns, or a new
/// value.
pub const TRANSFORM_RECALL: u8 = 7;

/// Names of the transforms, by number.
pub const TRANSFORM_NAMES: [&str; 8] = ["const", "offset", "rise", "step", "dict", "follow", "runs", "recall"];

/// Slots in which a recalled column remembers its words.
pub const RECALL_SLOTS: usize = 4096;
/// Slots in which it remembers what a row held that was the first of its slot.
pub const RECALL_DEFAULTS: usize = 16;
/// Factor of the second column in the number of a slot.
pub const RECALL_STRIDE: u64 = 1021;

/// Form of numbers: this and the digits in the size byte; forms up to 8 are the width of byte planes.
pub const FORM_SCALED: u8 = 16;
/// Form of numbers: varint length and a standalone pcodec file of them.
pub const FORM_PCO: u8 = 32;
/// Digits in the size byte at most.
pub const SCALED_MAX_DIGITS: u8 = 4;
/// Digits behind the size byte at most, per number.
pub const SCALED_MAX_SHIFT: u32 = 56;

/// Byte plane: one byte, the same for every row.
pub const PLANE_CONST: u8 = 0;
/// Byte plane: as it is.
pub const PLANE_RAW: u8 = 1;
/// Byte plane: varint length and one zstd frame.
pub const PLANE_ZSTD: u8 = 2;
/// Added to the mode of a plane of few values: several rows share a byte.
pub const PLANE_PACKED: u8 = 4;
/// Values of a packed plane at most.
pub const PACKED_MAX_BASE: u8 = 16;

/// Rows of one block at most. With the caps below it bounds what a reader allocates per block.
pub const MAX_ROWS: usize = 1 << 18;
/// Columns of one kind at most.
pub const MAX_COLUMNS: usize = 64;
/// Event kinds of one schema at most.
pub const MAX_KINDS: usize = 1 << 12;
/// Named values of one column at most.
pub const MAX_NAMES: usize = 1 << 16;
/// Bytes of one chunk's payload at most, before and after decompression.
pub const MAX_PAYLOAD: usize = 64 << 20;
/// Entries of a dictionary over the whole file at most.
pub const MAX_ENTRIES: usize = 1 << 26;
/// Bytes that the dictionaries of any file may take, all together; each entry takes its own, after
/// decompression, and [`ENTRY_COST`].
pub const DICTIONARY_FREE: u64 = 256 << 20;
/// Bytes that they may take beyond that, for each byte of the file.
pub const DICTIONARY_PER_BYTE: u64 = 32;
/// Bytes that an entry is reckoned to take beside its own.
pub const ENTRY_COST: u64 = 64;

/// Bytes that the blocks may take, decoded, which a reader has open to put their events in order.
pub const MAX_OPEN: usize = 1 << 30;

/// Rows after which a block is sealed.
pub const SEAL_ROWS: usize = 1 << 16;
/// Age of its first row after which a block is sealed: what a kill loses at most.
pub const SEAL_NS: u64 = 250_000_000;

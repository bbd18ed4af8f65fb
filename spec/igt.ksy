# The container of an .igt file, version 1, for Kaitai Struct (https://kaitai.io): chunks, dictionaries, the
# directories of blocks. What igt.md says of damaged files, CRCs and the bytes of the columns is beyond such a
# description; igt.py does the rest. Payloads with the flag zstd are left compressed.
meta:
  id: igt
  title: ingero trace
  file-extension: igt
  license: Apache-2.0
  ks-version: '0.10'
  endian: le
  bit-endian: be
  encoding: UTF-8
doc-ref: igt.md
seq:
  - id: header
    type: file_header
    size: 32
  - id: chunks
    type: chunk
    repeat: eos
types:
  file_header:
    seq:
      - id: magic
        contents: [0x89, 0x49, 0x47, 0x54, 0x0d, 0x0a, 0x1a, 0x0a]
      - id: major
        type: u2
        valid: 1
      - id: minor
        type: u2
      - id: len_header
        type: u4
      - id: reserved
        size: 12
      - id: crc
        type: u4
        doc: CRC-32C of the bytes before it.
  chunk:
    seq:
      - id: position
        size: 0
        if: offset >= 0
      - id: header
        type: chunk_header
        size: 56
      - id: payload
        size: header.len_payload
        type:
          switch-on: "header.type == chunk_type::block ? 100 : header.is_zstd ? 101 : header.type.to_i"
          cases:
            1: schema
            2: meta_entries
            3: strings
            4: tasks
            5: functions
            7: index
            8: footer
            100: block(header.len_head)
            101: compressed
      - id: padding
        size: (-header.len_payload) % 8
    instances:
      offset:
        value: _io.pos
  chunk_header:
    seq:
      - id: magic
        contents: [0xc9, 0x69, 0x67, 0x74]
      - id: type
        type: u1
        enum: chunk_type
      - id: reserved_flags
        type: b6
      - id: is_zstd
        type: b1
        doc: The payload is compressed.
      - id: is_ancillary
        type: b1
        doc: A reader that does not know the type may skip the chunk.
      - id: kind
        type: u2
        doc: Number of the event kind in a block, else 0.
      - id: seq
        type: u4
      - id: rows
        type: u4
      - id: cpu
        type: u4
        doc: CPU of all rows of a block; 4294967295 where there are several, or none.
      - id: len_head
        type: u4
      - id: len_payload
        type: u4
        valid:
          max: 67108864
      - id: head_crc
        type: u4
        doc: CRC-32C of the first len_head bytes of the payload.
      - id: ts_min
        type: u8
      - id: ts_max
        type: u8
      - id: reserved
        size: 4
      - id: crc
        type: u4
        doc: CRC-32C of the bytes of the header before it.
  compressed:
    seq:
      - id: len_raw
        type: u4
      - id: frame
        size-eos: true
        doc: One zstd frame.
  schema:
    seq:
      - id: num_kinds
        type: varint
      - id: kinds
        type: kind
        repeat: expr
        repeat-expr: num_kinds.value
      - id: later
        size-eos: true
        doc: Belongs to later versions.
  kind:
    seq:
      - id: number
        type: u2
      - id: name
        type: text
      - id: meaning
        type: text
      - id: num_columns
        type: varint
      - id: columns
        type: schema_column
        repeat: expr
        repeat-expr: num_columns.value
  schema_column:
    seq:
      - id: id
        type: u1
      - id: unit
        type: u1
        enum: unit
      - id: reserved
        type: b7
      - id: is_nullable
        type: b1
      - id: name
        type: text
      - id: meaning
        type: text
      - id: num_names
        type: varint
      - id: names
        type: named_value
        repeat: expr
        repeat-expr: num_names.value
  named_value:
    seq:
      - id: value
        type: varint
      - id: name
        type: text
  meta_entries:
    seq:
      - id: first
        type: varint
      - id: entries
        type: meta_entry
        repeat: eos
  meta_entry:
    seq:
      - id: key
        type: text
      - id: value
        type: text
  strings:
    seq:
      - id: first
        type: varint
      - id: entries
        type: text
        repeat: eos
  tasks:
    seq:
      - id: first
        type: varint
      - id: entries
        type: task
        repeat: eos
  task:
    seq:
      - id: process
        type: varint
        doc: Zigzag distance from the process id of the entry before.
      - id: thread
        type: varint
        doc: Zigzag distance from the process id of this entry.
      - id: birth
        type: varint
        doc: 0 if unknown, else 1 more than the zigzag distance from the birth before.
  functions:
    seq:
      - id: first
        type: varint
      - id: entries
        type: function
        repeat: eos
  function:
    seq:
      - id: layer
        type: u1
      - id: call_class
        type: u1
      - id: symbol
        type: text
  block:
    params:
      - id: len_head
        type: u4
    seq:
      - id: directory
        type: directory
        size: len_head
      - id: columns
        size: "directory.entries[_index].has_bytes ? directory.entries[_index].len_column.value : 0"
        repeat: expr
        repeat-expr: directory.num_entries.value
  directory:
    seq:
      - id: num_entries
        type: varint
      - id: entries
        type: directory_entry
        repeat: expr
        repeat-expr: num_entries.value
  directory_entry:
    seq:
      - id: id
        type: u1
      - id: is_nullable
        type: b1
      - id: transform
        type: b7
        enum: transform
      - id: min
        type: varint
      - id: range
        type: varint
        if: has_bytes
      - id: len_column
        type: varint
        if: has_bytes
      - id: crc
        type: u4
        if: has_bytes
      - id: sources
        type: u1
        repeat: expr
        repeat-expr: "transform == transform::follow ? 1 : transform == transform::recall ? 2 : 0"
    instances:
      has_bytes:
        value: transform != transform::const
  index:
    seq:
      - id: entries
        type: index_entry
        repeat: eos
  index_entry:
    seq:
      - id: offset
        type: u8
      - id: header
        type: chunk_header
        size: 56
  footer:
    seq:
      - id: index_offset
        type: u8
        doc: Where the index begins; 0 in a file of more chunks than one index lists.
      - id: num_chunks
        type: u8
      - id: num_events
        type: u8
      - id: reserved
        type: u8
  text:
    seq:
      - id: len_value
        type: varint
      - id: value
        type: str
        size: len_value.value
  varint:
    seq:
      - id: groups
        type: group
        repeat: until
        repeat-until: not _.has_next
    instances:
      value:
        value: >-
          groups[0].value
          + (groups.size > 1 ? groups[1].value << 7 : 0)
          + (groups.size > 2 ? groups[2].value << 14 : 0)
          + (groups.size > 3 ? groups[3].value << 21 : 0)
          + (groups.size > 4 ? groups[4].value << 28 : 0)
          + (groups.size > 5 ? groups[5].value << 35 : 0)
          + (groups.size > 6 ? groups[6].value << 42 : 0)
          + (groups.size > 7 ? groups[7].value << 49 : 0)
          + (groups.size > 8 ? groups[8].value << 56 : 0)
          + (groups.size > 9 ? groups[9].value << 63 : 0)
  group:
    seq:
      - id: has_next
        type: b1
      - id: value
        type: b7
enums:
  chunk_type:
    1: schema
    2: meta
    3: strings
    4: tasks
    5: functions
    6: block
    7: index
    8: footer
  unit:
    1: time
    2: duration
    3: cpu
    4: task
    5: string
    6: function
    7: number
    8: signed
    9: bytes
    10: address
    11: enum
    12: flags
  transform:
    0: const
    1: offset
    2: rise
    3: step
    4: dict
    5: follow
    6: runs
    7: recall

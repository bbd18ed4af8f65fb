//! Ring records of sockets.

use bytemuck::{Pod, Zeroable};

use crate::Header;

/// A thread sent or received through a socket. `header.tid` is that thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct SocketIo {
    /// Flags: 1 received, 0 sent.
    pub header: Header,
    /// Process.
    pub tgid: u32,
    /// Bytes, or an error number below 0.
    pub result: i32,
    /// Address family.
    pub family: u16,
    /// Own port; 0 for none.
    pub local_port: u16,
    /// Port of the other side; 0 for none.
    pub peer_port: u16,
    /// Zero.
    pub reserved: u16,
}

/// A TCP segment is sent again. `header.tid` is whoever was interrupted.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Retransmit {
    /// No flags.
    pub header: Header,
    /// State of the connection, the kernel's number; 0 where it is not known.
    pub state: u32,
    /// Own port.
    pub local_port: u16,
    /// Port of the other side.
    pub peer_port: u16,
    /// Own address; a version 4 one as `::ffff:a.b.c.d`.
    pub local: [u8; 16],
    /// Address of the other side.
    pub peer: [u8; 16],
}

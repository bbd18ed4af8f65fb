//! Sockets: what followed processes send and receive, and what has to be sent again.

use aya_ebpf::{bindings::task_struct, macros::btf_tracepoint, programs::BtfTracePointContext};
use ingero_ebpf_common::{Kind, Retransmit, SocketIo};

use crate::{
    Task, config,
    kernel::{self, Typed},
    ring, targets,
};

const INET: u16 = 2;
const INET6: u16 = 10;
/// `MSG_PEEK`: what is looked at is received later.
const PEEK: u32 = 2;

#[inline(always)]
fn transfer(ctx: &BtfTracePointContext, received: u8) -> i32 {
    let task = Task::current();
    if !targets::followed(task) || ctx.arg::<u64>(2) as u32 & PEEK != 0 {
        return 0;
    }
    // SAFETY: the first argument of both tracepoints is a `sock`.
    let sock = unsafe { Typed::new(ctx.arg::<*const task_struct>(0)) };
    let family = sock.field::<u16>(config!(sock_family));
    let (local_port, peer_port) = if family == INET || family == INET6 {
        (sock.field::<u16>(config!(sock_port)), u16::from_be(sock.field::<u16>(config!(sock_peer_port))))
    } else {
        (0, 0)
    };
    let result = ctx.arg::<u64>(1) as i32;
    ring::emit(Kind::SocketIo, task, received, |header| SocketIo {
        header,
        tgid: task.tgid,
        result,
        family,
        local_port,
        peer_port,
        reserved: 0,
    });
    0
}

/// `sock_send_length(struct sock *sk, int ret, int flags)`, since 6.3.
#[btf_tracepoint(function = "sock_send_length")]
pub fn sock_send_length(ctx: BtfTracePointContext) -> i32 {
    transfer(&ctx, 0)
}

/// `sock_recv_length(struct sock *sk, int ret, int flags)`, since 6.3.
#[btf_tracepoint(function = "sock_recv_length")]
pub fn sock_recv_length(ctx: BtfTracePointContext) -> i32 {
    transfer(&ctx, 1)
}

/// A version 4 address in the form of version 6.
#[inline(always)]
fn mapped(sock: Typed, offset: u32) -> [u8; 16] {
    let [a, b, c, d] = sock.field::<u32>(offset).to_ne_bytes();
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

#[inline(always)]
fn address(sock: Typed, offset: u32) -> [u8; 16] {
    kernel::read(sock.address().wrapping_add(u64::from(offset))).unwrap_or([0; 16])
}

/// `tcp_retransmit_skb(const struct sock *sk, const struct sk_buff *skb)`, newer kernels with more behind these: a
/// segment is sent again.
#[btf_tracepoint(function = "tcp_retransmit_skb")]
pub fn tcp_retransmit_skb(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the first argument is a `sock`.
    let sock = unsafe { Typed::new(ctx.arg::<*const task_struct>(0)) };
    let (local, peer) = if sock.field::<u16>(config!(sock_family)) == INET6 {
        let [local, peer] = config!(sock_addresses_v6);
        (address(sock, local), address(sock, peer))
    } else {
        let [local, peer] = config!(sock_addresses_v4);
        (mapped(sock, local), mapped(sock, peer))
    };
    ring::emit(Kind::Retransmit, Task::current(), 0, |header| Retransmit {
        header,
        state: u32::from(sock.field::<u8>(config!(sock_state))),
        local_port: sock.field(config!(sock_port)),
        peer_port: u16::from_be(sock.field(config!(sock_peer_port))),
        local,
        peer,
    });
    0
}

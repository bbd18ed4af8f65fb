//! Ring records on their way from the drain thread to the writer thread.

use ingero_ebpf_common::{
    CallEntry, CallReturn, Exec, Exit, Fork, Header, Mapped, PageAlloc, Rename, SLOTS, Switch, Wakeup, Waking,
};

use crate::kernel::WireEvent;

/// Records in one batch.
pub const BATCH_RECORDS: usize = 8192;

/// A record that owns its bytes: the ring's room is needed for the next ones.
#[derive(Debug, Clone)]
pub enum Record {
    /// See [`WireEvent::Switch`].
    Switch(Switch),
    /// See [`WireEvent::Waking`].
    Waking(Waking),
    /// See [`WireEvent::Wakeup`].
    Wakeup(Wakeup),
    /// See [`WireEvent::WakeupNew`].
    WakeupNew(Wakeup),
    /// See [`WireEvent::Fork`].
    Fork(Fork),
    /// See [`WireEvent::Exec`]; boxed, since it is rare and large.
    Exec(Box<Exec>),
    /// See [`WireEvent::Exit`].
    Exit(Exit),
    /// See [`WireEvent::Rename`].
    Rename(Rename),
    /// See [`WireEvent::PageAlloc`].
    PageAlloc(PageAlloc),
    /// See [`WireEvent::Mapped`].
    Mapped(Mapped),
    /// See [`WireEvent::CallEntry`].
    CallEntry(CallEntry, [u64; SLOTS]),
    /// See [`WireEvent::CallReturn`].
    CallReturn(CallReturn, Option<u64>),
}

impl Record {
    /// What every record starts with.
    #[must_use]
    pub fn header(&self) -> &Header {
        match self {
            Self::Switch(r) => &r.header,
            Self::Waking(r) => &r.header,
            Self::Wakeup(r) | Self::WakeupNew(r) => &r.header,
            Self::Fork(r) => &r.header,
            Self::Exec(r) => &r.header,
            Self::Exit(r) => &r.header,
            Self::Rename(r) => &r.header,
            Self::PageAlloc(r) => &r.header,
            Self::Mapped(r) => &r.header,
            Self::CallEntry(r, _) => &r.header,
            Self::CallReturn(r, _) => &r.header,
        }
    }
}

impl From<WireEvent<'_>> for Record {
    fn from(event: WireEvent<'_>) -> Self {
        match event {
            WireEvent::Switch(r) => Self::Switch(*r),
            WireEvent::Waking(r) => Self::Waking(*r),
            WireEvent::Wakeup(r) => Self::Wakeup(*r),
            WireEvent::WakeupNew(r) => Self::WakeupNew(*r),
            WireEvent::Fork(r) => Self::Fork(*r),
            WireEvent::Exec(r) => Self::Exec(Box::new(*r)),
            WireEvent::Exit(r) => Self::Exit(*r),
            WireEvent::Rename(r) => Self::Rename(*r),
            WireEvent::PageAlloc(r) => Self::PageAlloc(*r),
            WireEvent::Mapped(r) => Self::Mapped(*r),
            WireEvent::CallEntry(r, args) => {
                let mut words = [0; SLOTS];
                for (to, from) in words.iter_mut().zip(args) {
                    *to = *from;
                }
                Self::CallEntry(*r, words)
            }
            WireEvent::CallReturn(r, out) => Self::CallReturn(*r, out),
        }
    }
}

//! The kernel side of holding new programs: see `ebpf/programs/src/hold.rs`.

use std::{
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use ingero_ebpf_common::{HOLD_RING_BYTES, Held, HoldPlan};

use super::{
    Error,
    btf::Btf,
    object::{Hook, Loaded},
    ring::{Next, Ring},
    sys::{self, Bell},
};

/// `PIDTYPE_PGID`
const GROUP: u32 = 2;
const POINTER_BYTES: u32 = 8;

/// Stops followed processes at the start of programs that nobody has looked into. Whoever holds this must let each go.
#[derive(Debug)]
pub struct Hold {
    link: Option<OwnedFd>,
    program: OwnedFd,
    plan: OwnedFd,
    known: OwnedFd,
    ring: Ring,
    bell: Bell,
    offsets: HoldPlan,
}

impl Hold {
    /// `None`: this kernel's types do not say enough.
    pub(super) fn load(object: &Loaded, btf: &Btf) -> Result<Option<Self>, Error> {
        let (Some(offsets), Some((id, _))) = (offsets(btf), btf.tracepoint("sched_process_exec")) else {
            return Ok(None);
        };
        let ring = Ring::over(object.map("HOLDS")?, HOLD_RING_BYTES)
            .map_err(|source| Error::os("mapping the ring of held programs", source))?;
        let bell =
            Bell::new([ring.as_fd()]).map_err(|source| Error::os("listening to the ring of held programs", source))?;
        Ok(Some(Self {
            link: None,
            program: object.program("hold_exec", Hook::Typed(id))?,
            plan: object.map("HOLD_PLAN")?,
            known: object.map("KNOWN_PROGRAMS")?,
            ring,
            bell,
            offsets,
        }))
    }

    /// From here on followed processes of this group are held.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(&mut self, group: u32) -> Result<(), Error> {
        let plan = HoldPlan { group, ..self.offsets };
        sys::map_update(self.plan.as_fd(), &0_u32, bytemuck::bytes_of(&plan))
            .map_err(|source| Error::os("saying whom to hold", source))?;
        let link = sys::raw_tracepoint_open(self.program.as_fd(), None);
        self.link = Some(link.map_err(|source| Error::os("attaching to tracepoint sched_process_exec", source))?);
        Ok(())
    }

    /// From here on nobody is held any more. Those who are must still be let go.
    pub fn stop(&mut self) {
        self.link = None;
    }

    /// Waits until somebody is held, or for `timeout`.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&self, timeout: Duration) -> Result<(), Error> {
        self.bell.wait(timeout).map_err(|source| Error::os("waiting for held programs", source))
    }

    /// One who is held.
    pub fn next_held(&mut self) -> Option<Held> {
        let Next::Record = self.ring.peek() else { return None };
        let held = self.ring.record().map(bytemuck::try_pod_read_unaligned::<Held>);
        self.ring.advance();
        self.ring.release();
        held?.ok()
    }

    /// This one's program was looked into: its next start is not held.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remember(&self, held: &Held) -> Result<(), Error> {
        sys::map_update(self.known.as_fd(), &held.file, bytemuck::bytes_of(&1_u32))
            .map_err(|source| Error::os("remembering a program", source))
    }
}

fn offsets(btf: &Btf) -> Option<HoldPlan> {
    Some(HoldPlan {
        group: 0,
        task_signal: btf.field("task_struct", "signal")?,
        signal_group: btf.field("signal_struct", "pids")? + GROUP * POINTER_BYTES,
        pid_number: btf.field("pid", "numbers")?,
        task_ptrace: btf.field("task_struct", "ptrace")?,
        binprm_file: btf.field("linux_binprm", "file")?,
        file_inode: btf.field("file", "f_inode")?,
        inode_number: btf.field("inode", "i_ino")?,
        inode_super: btf.field("inode", "i_sb")?,
        super_device: btf.field("super_block", "s_dev")?,
    })
}

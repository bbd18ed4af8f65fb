//! What is to be known of a library function that is probed.
//!
//! Signatures come from NVIDIA's public headers (`cuda_runtime_api.h`, `cuda.h`, CUDA 13).

/// The library that a function belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Layer {
    /// CUDA runtime, libcudart.
    Runtime = 1,
    /// CUDA driver, libcuda.
    Driver = 2,
    /// CUDA graphs.
    Graph = 3,
    /// NCCL collectives.
    Nccl = 4,
    /// NVTX, by which programs name what they do. Its calls become ranges and marks, never calls.
    Nvtx = 5,
    /// A library that this version does not know; never written.
    Other = 255,
}

impl Layer {
    /// The layer with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Runtime,
            2 => Self::Driver,
            3 => Self::Graph,
            4 => Self::Nccl,
            5 => Self::Nvtx,
            _ => return None,
        })
    }

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Driver => "driver",
            Self::Graph => "graph",
            Self::Nccl => "nccl",
            Self::Nvtx => "nvtx",
            Self::Other => "other",
        }
    }
}

/// What a function does, as far as an analysis cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Submits kernels.
    Launch = 1,
    /// Copies memory; the direction is in the call.
    Copy = 2,
    /// Fills memory.
    Fill = 3,
    /// Allocates memory.
    Alloc = 4,
    /// Frees memory.
    Free = 5,
    /// Waits until the device has done something.
    Sync = 6,
    /// Records an event or makes a stream wait; returns at once.
    Event = 7,
    /// Anything else.
    Other = 8,
    /// Queues an exchange between GPUs on a stream.
    Collective = 9,
    /// Captures, builds or updates a graph; submits nothing.
    Graph = 10,
    /// Chooses the device or context of its thread.
    Device = 11,
}

impl Class {
    /// The class with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Launch,
            2 => Self::Copy,
            3 => Self::Fill,
            4 => Self::Alloc,
            5 => Self::Free,
            6 => Self::Sync,
            7 => Self::Event,
            8 => Self::Other,
            9 => Self::Collective,
            10 => Self::Graph,
            11 => Self::Device,
            _ => return None,
        })
    }

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Copy => "copy",
            Self::Fill => "fill",
            Self::Alloc => "alloc",
            Self::Free => "free",
            Self::Sync => "sync",
            Self::Event => "event",
            Self::Other => "other",
            Self::Collective => "collective",
            Self::Graph => "graph",
            Self::Device => "device",
        }
    }
}

/// Where a value of a call comes from.
///
/// Arguments are counted in integer slots as the x86-64 and aarch64 ABIs hand them over: a `dim3`
/// by value takes two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arg {
    /// The function has none.
    None,
    /// The nth integer slot, from 0.
    Slot(u8),
    /// The low 32 bits of the nth integer slot.
    Slot32(u8),
    /// 8 bytes at an offset behind the pointer in the nth integer slot.
    Behind(u8, u8),
    /// The same for every call of this function.
    Always(u64),
    /// Written behind the pointer in the nth integer slot when the function returns.
    Out(u8),
}

/// What a call means beyond its own row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    None,
    /// An exchange by NCCL.
    Collective {
        /// Elements.
        count: Arg,
        /// `ncclDataType_t` of an element.
        datatype: Arg,
        /// `ncclRedOp_t` of a reduction.
        op: Arg,
        /// Communicator.
        comm: Arg,
        /// The root or the other side.
        peer: Arg,
    },
    /// A communicator, given by `ptr`, is made.
    NewComm {
        /// Ranks in it.
        ranks: Arg,
        /// The caller's own.
        rank: Arg,
    },
    /// The out value is the caller's rank in this communicator.
    RankOf(Arg),
    /// The out value is how many ranks this communicator has.
    RanksOf(Arg),
    /// A device becomes the thread's current one.
    Device(Arg),
    /// A context becomes the thread's current one.
    Context(Arg),
    /// As `Context`, and the one before comes back at a pop.
    PushContext(Arg),
    /// The context before becomes the current one.
    PopContext,
    /// The out value is a context of this device, which becomes current if the flag is set.
    NewContext(Arg, bool),
    /// An NVTX range begins in its thread.
    RangePush(Text, Arg),
    /// The innermost one ends, in the domain given.
    RangePop(Arg),
    /// An NVTX range begins; the result is its id.
    RangeStart(Text),
    /// The one with this id ends.
    RangeEnd(Arg),
    /// An NVTX mark.
    Mark(Text),
}

/// Where the text of an NVTX call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// Behind the pointer in the nth integer slot, zero-terminated bytes.
    At(u8),
    /// Behind the message pointer of the `nvtxEventAttributes_t` that the nth integer slot points at, if it says
    /// that its message is bytes.
    Attributes(u8),
    /// In wide characters: not read.
    Wide,
}

/// One probed function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// Symbol, the name in every report.
    pub symbol: &'static str,
    /// Library.
    pub layer: Layer,
    /// What it does.
    pub class: Class,
    /// Destination, allocation, kernel function, event handle, graph, pool, context or communicator.
    pub ptr: Arg,
    /// Source.
    pub ptr2: Arg,
    /// Size in bytes.
    pub bytes: Arg,
    /// Factor of `bytes`: the height of a 2D copy, the count of elements.
    pub times: Arg,
    /// Direction of a copy, the numbers of `cudaMemcpyKind`.
    pub copy: Arg,
    /// Stream handle.
    pub stream: Arg,
    /// What else it means.
    pub detail: Detail,
}

impl Function {
    pub(super) const fn new(symbol: &'static str, layer: Layer, class: Class) -> Self {
        const NONE: Arg = Arg::None;
        Self {
            symbol,
            layer,
            class,
            ptr: NONE,
            ptr2: NONE,
            bytes: NONE,
            times: NONE,
            copy: NONE,
            stream: NONE,
            detail: Detail::None,
        }
    }
    pub(super) const fn ptr(mut self, a: Arg) -> Self {
        self.ptr = a;
        self
    }
    pub(super) const fn ptr2(mut self, a: Arg) -> Self {
        self.ptr2 = a;
        self
    }
    pub(super) const fn bytes(mut self, a: Arg) -> Self {
        self.bytes = a;
        self
    }
    pub(super) const fn times(mut self, a: Arg) -> Self {
        self.times = a;
        self
    }
    pub(super) const fn copy(mut self, a: Arg) -> Self {
        self.copy = a;
        self
    }
    pub(super) const fn stream(mut self, a: Arg) -> Self {
        self.stream = a;
        self
    }
    pub(super) const fn detail(mut self, detail: Detail) -> Self {
        self.detail = detail;
        self
    }

    /// The arguments that its entry hands over, in the order in which a record of the kernel side carries them:
    /// those of the call's own columns, then those of the detail.
    #[must_use]
    pub fn arguments(&self) -> [Arg; 11] {
        const NONE: Arg = Arg::None;
        let [a, b, c, d, e] = match self.detail {
            Detail::None | Detail::PopContext | Detail::RangeStart(_) | Detail::Mark(_) => [NONE; 5],
            Detail::Collective { count, datatype, op, comm, peer } => [count, datatype, op, comm, peer],
            Detail::NewComm { ranks, rank } => [ranks, rank, NONE, NONE, NONE],
            Detail::RankOf(a)
            | Detail::RanksOf(a)
            | Detail::Device(a)
            | Detail::Context(a)
            | Detail::PushContext(a)
            | Detail::NewContext(a, _)
            | Detail::RangePush(_, a)
            | Detail::RangePop(a)
            | Detail::RangeEnd(a) => [a, NONE, NONE, NONE, NONE],
        };
        [self.ptr, self.ptr2, self.bytes, self.times, self.copy, self.stream, a, b, c, d, e]
    }

    /// Where its text is, if it hands one over.
    #[must_use]
    pub fn text(&self) -> Option<Text> {
        match self.detail {
            Detail::RangePush(text, _) | Detail::RangeStart(text) | Detail::Mark(text) => Some(text),
            _ => None,
        }
    }
}

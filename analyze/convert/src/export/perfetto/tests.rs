use super::proto::{Data, SLICE_BEGIN, SLICE_END, TracePacket};
use super::*;
use ingero_format::catalog::{Class, Layer, Loss, TaskId};
use ingero_replay::fixture::Fixture;
use prost::Message;
use std::io::Read;

const IDLE: TaskId = TaskId(0);

fn bytes(trace: &Trace) -> (Vec<u8>, Exported) {
    let mut out = Vec::new();
    let done = export(trace, &Selection::whole(trace), &mut out, &Progress::none()).unwrap();
    (out, done)
}

/// The packets of a file, as far as they are whole.
fn packets(mut bytes: &[u8]) -> Vec<TracePacket> {
    let mut packets = Vec::new();
    while let Some((&tag, rest)) = bytes.split_first() {
        assert_eq!(tag, 0x0a);
        let mut rest = rest;
        let Ok(len) = prost::encoding::decode_varint(&mut rest) else { break };
        let Some((packet, after)) = rest.split_at_checked(usize::try_from(len).unwrap()) else { break };
        let packet = TracePacket::decode(packet).unwrap();
        if let Some(Data::CompressedPackets(packed)) = &packet.data {
            let mut plain = Vec::new();
            flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut plain).unwrap();
            packets.extend(self::packets(&plain));
        } else {
            packets.push(packet);
        }
        bytes = after;
    }
    packets
}

fn recording() -> Trace {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let inner = f.func("cuLaunchKernel", Layer::Driver, Class::Launch);
    f.switch(1_000, 0, IDLE, 0, a);
    f.call(2_000, 0, a, inner, 500);
    f.call(2_000, 0, a, launch, 1_000);
    f.waking(4_000, 0, a, b, 0);
    f.switch(5_000, 1, IDLE, 0, b);
    f.switch(6_000, 0, a, 1, IDLE);
    f.switch(9_000, 1, b, 0x100, IDLE);
    f.finish()
}

/// Those that are left where others are missing would be taken for all.
#[test]
fn switches_among_which_some_are_missing_tell_no_states() {
    let with = |lost: Option<(u64, u64)>| {
        let mut f = Fixture::new();
        let (a, b) = (f.task(1, 1), f.task(2, 2));
        for i in 0..10 {
            f.switch(1_000 + 2_000 * i, 0, IDLE, 0, a);
            f.switch(2_000 + 2_000 * i, 0, if i % 2 == 0 { a } else { b }, 1, IDLE);
        }
        if let Some((from_ns, to_ns)) = lost {
            let probe = f.writer().string("sched_switch");
            f.push(
                from_ns,
                ingero_format::catalog::NO_CPU,
                Loss { to_ns, probe, cause: 7, count: None, of_host: None },
            );
        }
        bytes(&f.finish()).1.switches
    };
    let (all, none, some) = (with(None), with(Some((1_000, 20_000))), with(Some((1_000, 10_000))));
    assert_eq!(none, 0);
    assert!(some >= 10 && some < all, "{some} of {all}");
}

#[test]
fn calls_that_begin_in_one_instant_nest() {
    let (out, done) = bytes(&recording());
    assert_eq!((done.calls, done.wakes, done.cut), (2, 1, 0));
    // Times count from packet to packet.
    let mut at_ns = 0u64;
    let slices: Vec<_> = packets(&out)
        .into_iter()
        .filter_map(|p| match p.data {
            Some(Data::TrackEvent(e)) if p.trusted_packet_sequence_id == Some(3) => {
                at_ns = at_ns.wrapping_add(p.timestamp.unwrap());
                (e.track_uuid < Some(1 << 32)).then_some((at_ns, e.kind, e.name_iid))
            }
            _ => None,
        })
        .collect();
    let (begin, end) = (Some(SLICE_BEGIN), Some(SLICE_END));
    assert_eq!(slices, [(1_000, begin, Some(1)), (2_000, end, None), (1_000, begin, Some(2)), (1_500, end, None)]);
}

#[test]
fn switches_are_columns_that_begin_with_one_that_says_nothing() {
    let (out, _) = bytes(&recording());
    let bundles: Vec<_> = packets(&out)
        .into_iter()
        .filter_map(|p| match p.data {
            Some(Data::FtraceEvents(b)) => Some((b.cpu.unwrap(), b.compact_sched.unwrap())),
            _ => None,
        })
        .collect();
    let (cpu, sched) = &bundles[0];
    assert_eq!(
        (*cpu, &sched.switch_timestamp[..], &sched.switch_next_pid[..]),
        (0, &[1_000, 0, 5_000][..], &[0, 1, 0][..])
    );
    assert_eq!(sched.switch_prev_state, [0, 0, 1]);
    let (cpu, sched) = &bundles[2];
    assert_eq!((*cpu, &sched.waking_timestamp[..], &sched.waking_pid[..]), (0, &[4_000][..], &[2][..]));
}

#[test]
fn a_file_that_is_cut_has_all_that_came_before() {
    let trace = recording();
    let mut out = Vec::new();
    // So few bytes are packed together that the file has many such parts.
    let stream = PacketStream::packing(&mut out, 200);
    export_to(stream, &trace, &Selection::whole(&trace), &Progress::none()).unwrap();
    let all = packets(&out);
    assert_eq!(all, packets(&bytes(&trace).0));
    let mut seen = std::collections::BTreeSet::new();
    for cut in 0..out.len() {
        let some = packets(&out[..cut]);
        assert_eq!(some[..], all[..some.len()], "{cut}");
        seen.insert(some.len());
    }
    assert!(seen.len() > 4, "{seen:?}");
}

/// Bytes without any order in them take more room packed than plain.
#[test]
fn what_cannot_be_packed_is_written_all_the_same() {
    let mut noise = 0x9e37_79b9_7f4a_7c15u64;
    let mut name = String::new();
    for _ in 0..200_000 {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        name.push(char::from(u8::try_from(noise >> 57).unwrap()));
    }
    let event = super::proto::TrackEvent { name: Some(name), ..Default::default() };
    let packet = TracePacket { data: Some(Data::TrackEvent(event)), ..TracePacket::default() };
    let mut out = Vec::new();
    let mut stream = PacketStream::new(&mut out);
    stream.packet(&packet);
    stream.packet(&packet);
    stream.end().unwrap();
    assert_eq!(packets(&out), [packet.clone(), packet]);
}

/// Who is lost sight of, and who runs unseen, was in no state that anybody knows: the reader must not take it to be ready to run.
#[test]
fn nobody_leaves_a_cpu_ready_to_run_whom_the_kernel_did_not_say_so_of() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.switch(1_000, 0, IDLE, 0, a);
    // That a left, and that b came, was not reported.
    f.switch(9_000, 0, b, 1, IDLE);
    f.switch(12_000, 0, IDLE, 0, a);
    f.switch(13_000, 0, a, 0x100, b);
    f.switch(14_000, 0, b, 1, IDLE);
    // That b was woken, and came, was not reported: for how long it slept nobody knows.
    f.switch(20_000, 0, b, 1, IDLE);
    let (out, _) = bytes(&f.finish());
    let mut on = 0;
    let mut left = Vec::new();
    for packet in packets(&out) {
        let Some(Data::FtraceEvents(bundle)) = packet.data else { continue };
        let sched = bundle.compact_sched.unwrap();
        for (state, next) in sched.switch_prev_state.iter().zip(&sched.switch_next_pid) {
            left.push((on, *state));
            on = *next;
        }
    }
    left.retain(|(tid, _)| *tid != 0);
    assert_eq!(left, [(1, 0xc0), (2, 1), (1, 0x100), (2, 0xc0), (2, 1)]);
}

/// Perfetto takes the states of older kernels otherwise than they are here.
#[test]
fn the_release_is_of_a_kernel_whose_states_are_ours() {
    for (kernel, due) in [
        (None, "4.14.0"),
        (Some("6.18.44"), "6.18.44"),
        (Some("4.14.0-12"), "4.14.0-12"),
        (Some("10.0.1"), "10.0.1"),
        (Some("4.4.0-210-generic"), "4.14.0 (recorded by 4.4.0-210-generic)"),
        (Some("3.10.0-1160.el7.x86_64"), "4.14.0 (recorded by 3.10.0-1160.el7.x86_64)"),
        // It reads two numbers with a dot behind each.
        (Some("7.0-rc1"), "4.14.0 (recorded by 7.0-rc1)"),
        (Some("own"), "4.14.0 (recorded by own)"),
    ] {
        let mut f = Fixture::new();
        if let Some(kernel) = kernel {
            f.writer().set_meta("kernel", kernel);
        }
        let a = f.task(1, 1);
        f.switch(1_000, 0, IDLE, 0, a);
        let (out, _) = bytes(&f.finish());
        let told = packets(&out).into_iter().find_map(|p| match p.data {
            Some(Data::SystemInfo(info)) => info.utsname.unwrap().release,
            _ => None,
        });
        assert_eq!(told.unwrap(), due);
    }
}

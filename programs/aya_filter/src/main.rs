//! An XDP filter in Rust: per-CPU counters, a blocklist, a tail call, global data and a log.
#![no_std]
#![no_main]

use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS};
use aya_ebpf::macros::{map, xdp};
use aya_ebpf::maps::{HashMap, LruHashMap, PerCpuArray, ProgramArray};
use aya_ebpf::programs::XdpContext;
use aya_log_ebpf::info;
use core::mem::size_of;

#[map]
static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(4, 0);
#[map]
static BLOCKED: HashMap<u32, u64> = HashMap::with_max_entries(1024, 0);
#[map]
static SEEN: LruHashMap<u32, u64> = LruHashMap::with_max_entries(1024, 0);
#[map]
static NEXT: ProgramArray = ProgramArray::with_max_entries(2, 0);

/// Whether dropped packets are logged; the loader sets it.
#[unsafe(no_mangle)]
static VERBOSE: u32 = 0;
/// Packets that were too short.
#[unsafe(no_mangle)]
static mut SHORT: u64 = 0;

const ETH_P_IP: u16 = 0x0800;
const IPPROTO_UDP: u8 = 17;

#[inline(always)]
fn at<T: Copy>(ctx: &XdpContext, offset: usize) -> Option<T> {
    let start = ctx.data();
    if start + offset + size_of::<T>() > ctx.data_end() {
        return None;
    }
    Some(unsafe { core::ptr::read_unaligned((start + offset) as *const T) })
}

#[inline(always)]
fn count(index: u32) {
    if let Some(counter) = COUNTERS.get_ptr_mut(index) {
        unsafe { *counter += 1 }
    }
}

#[xdp]
pub fn filter(ctx: XdpContext) -> u32 {
    match try_filter(&ctx) {
        Some(action) => action,
        None => {
            unsafe { SHORT += 1 };
            XDP_PASS
        }
    }
}

#[inline(always)]
fn try_filter(ctx: &XdpContext) -> Option<u32> {
    if u16::from_be(at::<u16>(ctx, 12)?) != ETH_P_IP {
        count(0);
        return Some(XDP_PASS);
    }
    let source = u32::from_be(at::<u32>(ctx, 26)?);
    if let Some(hits) = BLOCKED.get_ptr_mut(&source) {
        unsafe { *hits += 1 };
        count(1);
        if unsafe { core::ptr::read_volatile(&VERBOSE) } != 0 {
            info!(ctx, "dropped a packet from {:i}", source);
        }
        return Some(XDP_DROP);
    }
    let bytes = (ctx.data_end() - ctx.data()) as u64;
    let _ = SEEN.insert(&source, &bytes, 0);
    if at::<u8>(ctx, 23)? == IPPROTO_UDP {
        unsafe { let _ = NEXT.tail_call(ctx, 0); }
    }
    count(2);
    Some(XDP_PASS)
}

#[xdp]
pub fn udp(ctx: XdpContext) -> u32 {
    count(3);
    match at::<u16>(&ctx, 36).map(u16::from_be) {
        Some(53) => XDP_PASS,
        Some(port) if port < 1024 => XDP_DROP,
        _ => XDP_PASS,
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

//! The clock, chance, the CPU and the current task.

use super::Family;
use crate::interpreter::errno::*;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::{Machine, object};

pub(super) const FAMILY: Family = &[
    (5, "ktime_get_ns", clock),
    (7, "get_prandom_u32", random),
    (8, "get_smp_processor_id", cpu),
    (14, "get_current_pid_tgid", process),
    (15, "get_current_uid_gid", user),
    (16, "get_current_comm", name),
    (35, "get_current_task", task),
    (42, "get_numa_node_id", zero),
    (80, "get_current_cgroup_id", cgroup),
    (118, "jiffies64", jiffies),
    (125, "ktime_get_boot_ns", clock),
    (158, "get_current_task_btf", task),
    (160, "ktime_get_coarse_ns", clock),
    (208, "ktime_get_tai_ns", clock),
];

fn clock(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    let now = m.world.clock_ns;
    m.world.clock_ns = now.wrapping_add(m.options.clock_step_ns);
    Ok(now)
}

/// A thousand ticks a second, from five minutes before the first wrap of 32 bits as in the kernel.
fn jiffies(m: &mut Machine, arguments: [u64; 5]) -> Result<u64, Trap> {
    Ok(clock(m, arguments)? / 1_000_000 + 0xfffb_6c20)
}

fn random(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok(m.world.random.next() >> 32)
}

fn cpu(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok(m.world.cpu as u64)
}

fn zero(_: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok(0)
}

fn process(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok((m.world.task.tgid as u64) << 32 | m.world.task.pid as u64)
}

fn user(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok((m.world.task.gid as u64) << 32 | m.world.task.uid as u64)
}

fn cgroup(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok(m.world.task.cgroup_id)
}

fn task(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok(object(0x7461_736b, m.world.task.pid as u64))
}

fn name(m: &mut Machine, [buffer, len, ..]: [u64; 5]) -> Result<u64, Trap> {
    let len = len as u32 as usize;
    if len == 0 {
        return Ok(negative(EINVAL));
    }
    let comm = m.world.task.comm;
    let target = m.memory.write(buffer, len)?;
    target.fill(0);
    let copied = comm.len().min(len - 1);
    target[..copied].copy_from_slice(&comm[..copied]);
    Ok(0)
}

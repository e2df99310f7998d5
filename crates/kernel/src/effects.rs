//! Helpers that make a run depend on more than its input and maps, or reach beyond them. A caller
//! that compares runs decides what to do about such programs.

use karakoram_bpf::encode::Slot;

/// What running a call can mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Time, random numbers, the CPU, the process, other memory: two runs may differ.
    Varies,
    /// Something outside of the program changes, even in a test run: packets leave, signals are
    /// sent, memory of processes is written, timers start.
    ReachesOut,
}

/// A call that [`of_program`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EffectfulCall {
    /// Slot of the call.
    pub slot: usize,
    /// Helper name without `bpf_`; `kernel function` for calls of those, which are not known here.
    pub name: &'static str,
    /// What it can mean.
    pub effect: Effect,
}

/// By number (kernel `___BPF_FUNC_MAPPER`), in order.
const HELPERS: &[(i32, &str, Effect)] = &[
    (4, "probe_read", Effect::Varies),
    (5, "ktime_get_ns", Effect::Varies),
    (6, "trace_printk", Effect::ReachesOut),
    (7, "get_prandom_u32", Effect::Varies),
    (8, "get_smp_processor_id", Effect::Varies),
    (13, "clone_redirect", Effect::ReachesOut),
    (14, "get_current_pid_tgid", Effect::Varies),
    (15, "get_current_uid_gid", Effect::Varies),
    (16, "get_current_comm", Effect::Varies),
    (22, "perf_event_read", Effect::Varies),
    (27, "get_stackid", Effect::Varies),
    (35, "get_current_task", Effect::Varies),
    (36, "probe_write_user", Effect::ReachesOut),
    (42, "get_numa_node_id", Effect::Varies),
    (45, "probe_read_str", Effect::Varies),
    (46, "get_socket_cookie", Effect::Varies),
    (55, "perf_event_read_value", Effect::Varies),
    (56, "perf_prog_read_value", Effect::Varies),
    (58, "override_return", Effect::ReachesOut),
    (67, "get_stack", Effect::Varies),
    (80, "get_current_cgroup_id", Effect::Varies),
    (109, "send_signal", Effect::ReachesOut),
    (112, "probe_read_user", Effect::Varies),
    (113, "probe_read_kernel", Effect::Varies),
    (114, "probe_read_user_str", Effect::Varies),
    (115, "probe_read_kernel_str", Effect::Varies),
    (117, "send_signal_thread", Effect::ReachesOut),
    (118, "jiffies64", Effect::Varies),
    (119, "read_branch_records", Effect::Varies),
    (120, "get_ns_current_pid_tgid", Effect::Varies),
    (122, "get_netns_cookie", Effect::Varies),
    (123, "get_current_ancestor_cgroup_id", Effect::Varies),
    (125, "ktime_get_boot_ns", Effect::Varies),
    (141, "get_task_stack", Effect::Varies),
    (148, "copy_from_user", Effect::Varies),
    (153, "per_cpu_ptr", Effect::Varies),
    (154, "this_cpu_ptr", Effect::Varies),
    (158, "get_current_task_btf", Effect::Varies),
    (160, "ktime_get_coarse_ns", Effect::Varies),
    (166, "sys_bpf", Effect::ReachesOut),
    (167, "btf_find_by_name_kind", Effect::Varies),
    (168, "sys_close", Effect::ReachesOut),
    (170, "timer_set_callback", Effect::ReachesOut),
    (171, "timer_start", Effect::ReachesOut),
    (173, "get_func_ip", Effect::Varies),
    (176, "get_branch_snapshot", Effect::Varies),
    (177, "trace_vprintk", Effect::ReachesOut),
    (191, "copy_from_user_task", Effect::Varies),
    (208, "ktime_get_tai_ns", Effect::Varies),
];

/// What calling the helper of that number can mean; None for the others.
pub fn of_helper(id: i32) -> Option<(&'static str, Effect)> {
    HELPERS.binary_search_by_key(&id, |h| h.0).ok().map(|i| (HELPERS[i].1, HELPERS[i].2))
}

/// All calls of a program that matter. Kernel functions count as varying.
pub fn of_program(slots: &[Slot]) -> Vec<EffectfulCall> {
    const CALL: u8 = 0x85;
    let effect = |(at, slot): (usize, &Slot)| {
        let (name, effect) = match slot.src {
            _ if slot.code != CALL => return None,
            0 => of_helper(slot.imm)?,
            2 => ("kernel function", Effect::Varies),
            _ => return None,
        };
        Some(EffectfulCall { slot: at, name, effect })
    };
    slots.iter().enumerate().filter_map(effect).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_and_named_like_the_kernel() {
        assert!(HELPERS.windows(2).all(|w| w[0].0 < w[1].0));
        for (id, name, _) in HELPERS {
            assert!(karakoram_bpf::helper::name(*id).is_none_or(|n| n == *name), "{id} is not {name}");
        }
    }
}

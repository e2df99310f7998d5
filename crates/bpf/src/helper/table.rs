//! The table of helper contracts, from kernel `include/uapi/linux/bpf.h` and the implementation of each helper.
//!
//! How to add a row: one line, sorted by number. In doubt take the stronger effect, or leave the helper
//! out, which makes it a barrier. What the rows follow, each with the mistake it prevents:
//!
//! - `Write` only where the helper overwrites all bytes even when it fails; otherwise the old bytes can
//!   still be seen, and the row says `ReadWrite` (`xdp_load_bytes` returns early, `probe_read_str` stops
//!   at the end of the string).
//! - An address that the helper follows is `Read`, even when it is meant for kernel memory: programs
//!   also pass addresses on their own stack (`probe_read`).
//! - What tells user space or another program that something happened reads shared memory: they look
//!   at maps next (`ringbuf_output`, `send_signal`).
//! - Where addresses are in memory, and the helper follows them, it is `Gather`: they may lead to the
//!   program's own stack (the arguments of `snprintf`).
//! - What moves the packet changes the context: `data`, `data_end` and `len` are in it.
//! - What takes and gives back locks and references changes shared memory, so nothing is moved across.
//! - `droppable` only where a call leaves no trace but its result: nothing written, nothing acquired.
//!   Time and random numbers may be dropped when unused; two calls are never taken for one.
//! - `AtMost` speaks of all 64 bits of `r0`; a negative error is a large number there.
//!
//! Left out on purpose: helpers that call back into the program (`for_each_map_elem`, `loop`,
//! `timer_set_callback`, `find_vma`, `user_ringbuf_drain`), dynptrs, which hold addresses of other memory
//! in a form of their own, and `sys_bpf`, whose one structure is full of addresses that are written to.

use super::Arg::{self, *};
use super::Contract;
use super::Length::{Arg as In, Bytes};
use super::Returns::{self, *};
use super::Touch::{self, Moves, Reads, Writes};

/// Reads as many bytes as the value of that argument says (0 is the first).
const fn read(n: u8) -> Arg {
    Read(In(n))
}

/// Overwrites that many.
const fn write(n: u8) -> Arg {
    Write(In(n))
}

/// Reads and maybe changes that many.
const fn change(n: u8) -> Arg {
    ReadWrite(In(n))
}

/// Reads that many and what the addresses in them lead to.
const fn gather(n: u8) -> Arg {
    Gather(In(n))
}

/// Reads and maybe changes an object of that size.
const fn object(bytes: u32) -> Arg {
    ReadWrite(Bytes(bytes))
}

/// Any 32-bit number.
const WORD: Returns = AtMost(u32::MAX as u64);

/// A helper that touches nothing but what its arguments say.
const fn row(id: i32, name: &'static str, args: &'static [Arg], returns: Returns) -> Contract {
    Contract {
        id,
        name,
        args,
        returns,
        packet: Touch::None,
        shared: Touch::None,
        context: Touch::None,
        droppable: false,
    }
}

impl Contract {
    const fn packet(mut self, touch: Touch) -> Contract {
        self.packet = touch;
        self
    }

    const fn shared(mut self, touch: Touch) -> Contract {
        self.shared = touch;
        self
    }

    const fn context(mut self, touch: Touch) -> Contract {
        self.context = touch;
        self
    }

    /// The packet may move, and with it the context's fields change.
    const fn moves(self) -> Contract {
        self.packet(Moves).context(Writes)
    }

    const fn droppable(mut self) -> Contract {
        self.droppable = true;
        self
    }
}

/// Sorted by number.
#[rustfmt::skip]
pub(super) static CONTRACTS: &[Contract] = &[
    row(1, "map_lookup_elem", &[Map, Key], MapValueOrNull).droppable(),
    row(2, "map_update_elem", &[Map, Key, Value, Plain], Scalar).shared(Writes),
    row(3, "map_delete_elem", &[Map, Key], Scalar).shared(Writes),
    row(4, "probe_read", &[write(1), Plain, read(1)], Scalar).packet(Reads).shared(Reads),
    row(5, "ktime_get_ns", &[], Scalar).droppable(),
    row(6, "trace_printk", &[read(1), Plain, Optional, Optional, Optional], Scalar).packet(Reads).shared(Reads),
    row(7, "get_prandom_u32", &[], WORD).droppable(),
    row(8, "get_smp_processor_id", &[], WORD).droppable(),
    row(9, "skb_store_bytes", &[Context, Word, read(3), Plain, Plain], Scalar).moves(),
    row(10, "l3_csum_replace", &[Context, Word, Plain, Plain, Plain], Scalar).moves(),
    row(11, "l4_csum_replace", &[Context, Word, Plain, Plain, Plain], Scalar).moves(),
    row(12, "tail_call", &[Context, Map, Plain], Tail).packet(Writes).shared(Writes).context(Writes),
    row(13, "clone_redirect", &[Context, Word, Plain], Scalar).moves().shared(Reads),
    row(14, "get_current_pid_tgid", &[], Scalar).droppable(),
    row(15, "get_current_uid_gid", &[], Scalar).droppable(),
    row(16, "get_current_comm", &[write(1), Plain], Scalar),
    row(17, "get_cgroup_classid", &[Context], WORD).context(Reads).droppable(),
    row(18, "skb_vlan_push", &[Context, Word, Word], Scalar).moves(),
    row(19, "skb_vlan_pop", &[Context], Scalar).moves(),
    row(20, "skb_get_tunnel_key", &[Context, change(2), Plain, Plain], Scalar).context(Reads),
    row(21, "skb_set_tunnel_key", &[Context, read(2), Plain, Plain], Scalar).context(Writes),
    row(22, "perf_event_read", &[Map, Plain], Scalar),
    row(23, "redirect", &[Word, Plain], AtMost(7)),
    row(24, "get_route_realm", &[Context], WORD).context(Reads).droppable(),
    row(25, "perf_event_output", &[Context, Map, Plain, read(4), Plain], Scalar).packet(Reads).shared(Reads).context(Reads),
    row(26, "skb_load_bytes", &[Context, Word, write(3), Plain], Scalar).packet(Reads).context(Reads),
    row(27, "get_stackid", &[Context, Map, Plain], Scalar).shared(Writes).context(Reads),
    row(28, "csum_diff", &[read(1), Plain, read(3), Plain, Word], Scalar).droppable(),
    row(29, "skb_get_tunnel_opt", &[Context, change(2), Plain], Scalar).context(Reads),
    row(30, "skb_set_tunnel_opt", &[Context, read(2), Plain], Scalar).context(Writes),
    row(31, "skb_change_proto", &[Context, Word, Plain], Scalar).moves(),
    row(32, "skb_change_type", &[Context, Word], Scalar).context(Writes),
    row(33, "skb_under_cgroup", &[Context, Map, Plain], Scalar).context(Reads),
    row(34, "get_hash_recalc", &[Context], WORD).packet(Reads).context(Writes),
    row(35, "get_current_task", &[], Scalar).droppable(),
    row(36, "probe_write_user", &[Plain, read(2), Plain], Scalar).shared(Writes),
    row(37, "current_task_under_cgroup", &[Map, Plain], Scalar),
    row(38, "skb_change_tail", &[Context, Word, Plain], Scalar).moves(),
    row(39, "skb_pull_data", &[Context, Word], Scalar).moves(),
    row(40, "csum_update", &[Context, Word], Scalar).context(Writes),
    row(41, "set_hash_invalid", &[Context], Scalar).context(Writes),
    row(42, "get_numa_node_id", &[], Scalar).droppable(),
    row(43, "skb_change_head", &[Context, Word, Plain], Scalar).moves(),
    row(44, "xdp_adjust_head", &[Context, Word], Scalar).moves(),
    row(45, "probe_read_str", &[change(1), Plain, read(1)], Scalar).packet(Reads).shared(Reads),
    row(46, "get_socket_cookie", &[Plain], Scalar).context(Reads),
    row(47, "get_socket_uid", &[Context], WORD).context(Reads).droppable(),
    row(48, "set_hash", &[Context, Word], Scalar).context(Writes),
    row(49, "setsockopt", &[Plain, Word, Word, read(4), Plain], Scalar).shared(Writes).context(Writes),
    row(50, "skb_adjust_room", &[Context, Word, Word, Plain], Scalar).moves(),
    row(51, "redirect_map", &[Map, Word, Plain], AtMost(4)),
    row(52, "sk_redirect_map", &[Context, Map, Word, Plain], AtMost(1)).context(Writes),
    row(53, "sock_map_update", &[Context, Map, Key, Plain], Scalar).shared(Writes).context(Writes),
    row(54, "xdp_adjust_meta", &[Context, Word], Scalar).moves(),
    row(55, "perf_event_read_value", &[Map, Plain, change(3), Plain], Scalar),
    row(56, "perf_prog_read_value", &[Context, change(2), Plain], Scalar).context(Reads),
    row(57, "getsockopt", &[Plain, Word, Word, change(4), Plain], Scalar).shared(Reads).context(Reads),
    row(58, "override_return", &[Context, Plain], Scalar).context(Writes),
    row(59, "sock_ops_cb_flags_set", &[Context, Word], Scalar).context(Writes),
    row(60, "msg_redirect_map", &[Context, Map, Word, Plain], AtMost(1)).context(Writes),
    row(61, "msg_apply_bytes", &[Context, Word], Scalar).context(Writes),
    row(62, "msg_cork_bytes", &[Context, Word], Scalar).context(Writes),
    row(63, "msg_pull_data", &[Context, Word, Word, Plain], Scalar).moves(),
    row(64, "bind", &[Context, read(2), Plain], Scalar).shared(Writes).context(Writes),
    row(65, "xdp_adjust_tail", &[Context, Word], Scalar).moves(),
    row(66, "skb_get_xfrm_state", &[Context, Plain, change(3), Plain, Plain], Scalar).context(Reads),
    row(67, "get_stack", &[Context, change(2), Plain, Plain], Scalar).context(Reads),
    row(68, "skb_load_bytes_relative", &[Context, Word, write(3), Plain, Word], Scalar).packet(Reads).context(Reads),
    row(69, "fib_lookup", &[Context, change(2), Plain, Word], Scalar).packet(Reads).context(Reads),
    row(70, "sock_hash_update", &[Context, Map, Key, Plain], Scalar).shared(Writes).context(Writes),
    row(71, "msg_redirect_hash", &[Context, Map, Key, Plain], AtMost(1)).context(Writes),
    row(72, "sk_redirect_hash", &[Context, Map, Key, Plain], AtMost(1)).context(Writes),
    row(73, "lwt_push_encap", &[Context, Plain, read(3), Plain], Scalar).moves(),
    row(74, "lwt_seg6_store_bytes", &[Context, Plain, read(3), Plain], Scalar).moves(),
    row(75, "lwt_seg6_adjust_srh", &[Context, Plain, Plain], Scalar).moves(),
    row(76, "lwt_seg6_action", &[Context, Plain, read(3), Plain], Scalar).moves(),
    row(77, "rc_repeat", &[Context], Scalar).shared(Reads).context(Writes),
    row(78, "rc_keydown", &[Context, Plain, Plain, Plain], Scalar).shared(Reads).context(Writes),
    row(79, "skb_cgroup_id", &[Context], Scalar).context(Reads).droppable(),
    row(80, "get_current_cgroup_id", &[], Scalar).droppable(),
    row(81, "get_local_storage", &[Map, Plain], Pointer),
    row(82, "sk_select_reuseport", &[Context, Map, Key, Plain], Scalar).context(Writes),
    row(83, "skb_ancestor_cgroup_id", &[Context, Word], Scalar).context(Reads).droppable(),
    row(84, "sk_lookup_tcp", &[Context, read(2), Plain, Plain, Plain], PointerOrNull).shared(Writes).context(Reads),
    row(85, "sk_lookup_udp", &[Context, read(2), Plain, Plain, Plain], PointerOrNull).shared(Writes).context(Reads),
    row(86, "sk_release", &[Plain], Scalar).shared(Writes),
    row(87, "map_push_elem", &[Map, Value, Plain], Scalar).shared(Writes),
    row(88, "map_pop_elem", &[Map, Opaque], Scalar).shared(Writes),
    row(89, "map_peek_elem", &[Map, Opaque], Scalar).shared(Reads),
    row(90, "msg_push_data", &[Context, Word, Word, Plain], Scalar).moves(),
    row(91, "msg_pop_data", &[Context, Word, Word, Plain], Scalar).moves(),
    row(92, "rc_pointer_rel", &[Context, Plain, Plain], Scalar).shared(Reads).context(Writes),
    row(93, "spin_lock", &[Plain], Scalar).shared(Writes),
    row(94, "spin_unlock", &[Plain], Scalar).shared(Writes),
    row(95, "sk_fullsock", &[Plain], PointerOrNull).context(Reads),
    row(96, "tcp_sock", &[Plain], PointerOrNull).context(Reads),
    row(97, "skb_ecn_set_ce", &[Context], Scalar).moves(),
    row(98, "get_listener_sock", &[Plain], PointerOrNull).context(Reads),
    row(99, "skc_lookup_tcp", &[Context, read(2), Plain, Plain, Plain], PointerOrNull).shared(Writes).context(Reads),
    row(100, "tcp_check_syncookie", &[Plain, read(2), Plain, read(4), Plain], Scalar).shared(Reads),
    row(101, "sysctl_get_name", &[Context, change(2), Plain, Plain], Scalar).context(Reads),
    row(102, "sysctl_get_current_value", &[Context, change(2), Plain], Scalar).context(Reads),
    row(103, "sysctl_get_new_value", &[Context, change(2), Plain], Scalar).context(Reads),
    row(104, "sysctl_set_new_value", &[Context, read(2), Plain], Scalar).context(Writes),
    row(105, "strtol", &[read(1), Plain, Plain, object(8)], Scalar),
    row(106, "strtoul", &[read(1), Plain, Plain, object(8)], Scalar),
    row(107, "sk_storage_get", &[Map, Plain, Value, Plain], MapValueOrNull).shared(Writes),
    row(108, "sk_storage_delete", &[Map, Plain], Scalar).shared(Writes),
    row(109, "send_signal", &[Plain], Scalar).shared(Reads),
    row(110, "tcp_gen_syncookie", &[Plain, read(2), Plain, read(4), Plain], Scalar).shared(Reads),
    row(111, "skb_output", &[Plain, Map, Plain, read(4), Plain], Scalar).packet(Reads).shared(Reads).context(Reads),
    row(112, "probe_read_user", &[write(1), Plain, Plain], Scalar).shared(Reads),
    row(113, "probe_read_kernel", &[write(1), Plain, read(1)], Scalar).packet(Reads).shared(Reads),
    row(114, "probe_read_user_str", &[change(1), Plain, Plain], Scalar).shared(Reads),
    row(115, "probe_read_kernel_str", &[change(1), Plain, read(1)], Scalar).packet(Reads).shared(Reads),
    row(116, "tcp_send_ack", &[Plain, Plain], Scalar).shared(Writes),
    row(117, "send_signal_thread", &[Plain], Scalar).shared(Reads),
    row(118, "jiffies64", &[], Scalar).droppable(),
    row(119, "read_branch_records", &[Context, change(2), Plain, Plain], Scalar).context(Reads),
    row(120, "get_ns_current_pid_tgid", &[Plain, Plain, change(3), Plain], Scalar),
    row(121, "xdp_output", &[Plain, Map, Plain, read(4), Plain], Scalar).packet(Reads).shared(Reads).context(Reads),
    row(122, "get_netns_cookie", &[Plain], Scalar).context(Reads),
    row(123, "get_current_ancestor_cgroup_id", &[Plain], Scalar).droppable(),
    row(124, "sk_assign", &[Context, Plain, Plain], Scalar).shared(Writes).context(Writes),
    row(125, "ktime_get_boot_ns", &[], Scalar).droppable(),
    row(126, "seq_printf", &[Plain, read(2), Plain, gather(4), Plain], Scalar).packet(Reads).shared(Reads),
    row(127, "seq_write", &[Plain, read(2), Plain], Scalar).shared(Reads),
    row(128, "sk_cgroup_id", &[Plain], Scalar).context(Reads).droppable(),
    row(129, "sk_ancestor_cgroup_id", &[Plain, Plain], Scalar).context(Reads).droppable(),
    row(130, "ringbuf_output", &[Map, read(2), Plain, Plain], Scalar).shared(Reads),
    row(131, "ringbuf_reserve", &[Map, Plain, Plain], MemoryOrNull(1)).shared(Writes),
    row(132, "ringbuf_submit", &[Plain, Plain], Scalar).shared(Writes),
    row(133, "ringbuf_discard", &[Plain, Plain], Scalar).shared(Writes),
    row(134, "ringbuf_query", &[Map, Plain], Scalar),
    row(135, "csum_level", &[Context, Plain], Scalar).context(Writes),
    row(136, "skc_to_tcp6_sock", &[Plain], PointerOrNull),
    row(137, "skc_to_tcp_sock", &[Plain], PointerOrNull),
    row(138, "skc_to_tcp_timewait_sock", &[Plain], PointerOrNull),
    row(139, "skc_to_tcp_request_sock", &[Plain], PointerOrNull),
    row(140, "skc_to_udp6_sock", &[Plain], PointerOrNull),
    row(141, "get_task_stack", &[Plain, change(2), Plain, Plain], Scalar),
    row(142, "load_hdr_opt", &[Context, change(2), Plain, Plain], Scalar).packet(Reads).context(Reads),
    row(143, "store_hdr_opt", &[Context, read(2), Plain, Plain], Scalar).moves(),
    row(144, "reserve_hdr_opt", &[Context, Plain, Plain], Scalar).context(Writes),
    row(145, "inode_storage_get", &[Map, Plain, Value, Plain], MapValueOrNull).shared(Writes),
    row(146, "inode_storage_delete", &[Map, Plain], Scalar).shared(Writes),
    row(147, "d_path", &[Plain, change(2), Plain], Scalar),
    row(148, "copy_from_user", &[write(1), Plain, Plain], Scalar).shared(Reads),
    row(149, "snprintf_btf", &[change(1), Plain, gather(3), Plain, Plain], Scalar).packet(Reads).shared(Reads),
    row(150, "seq_printf_btf", &[Plain, gather(2), Plain, Plain], Scalar).packet(Reads).shared(Reads),
    row(151, "skb_cgroup_classid", &[Context], Scalar).context(Reads).droppable(),
    row(152, "redirect_neigh", &[Word, read(2), Plain, Plain], AtMost(7)),
    row(153, "per_cpu_ptr", &[Plain, Plain], PointerOrNull),
    row(154, "this_cpu_ptr", &[Plain], Pointer),
    row(155, "redirect_peer", &[Word, Plain], AtMost(7)),
    row(156, "task_storage_get", &[Map, Plain, Value, Plain], MapValueOrNull).shared(Writes),
    row(157, "task_storage_delete", &[Map, Plain], Scalar).shared(Writes),
    row(158, "get_current_task_btf", &[], Pointer).droppable(),
    row(159, "bprm_opts_set", &[Plain, Plain], Scalar).shared(Writes),
    row(160, "ktime_get_coarse_ns", &[], Scalar).droppable(),
    row(161, "ima_inode_hash", &[Plain, change(2), Plain], Scalar).shared(Writes),
    row(162, "sock_from_file", &[Plain], PointerOrNull),
    row(163, "check_mtu", &[Context, Word, object(4), Word, Plain], Scalar).packet(Reads).context(Reads),
    row(165, "snprintf", &[change(1), Plain, Plain, gather(4), Plain], Scalar).packet(Reads).shared(Reads),
    row(167, "btf_find_by_name_kind", &[read(1), Plain, Plain, Plain], Scalar),
    row(168, "sys_close", &[Plain], Scalar).shared(Writes),
    row(169, "timer_init", &[Plain, Map, Plain], Scalar).shared(Writes),
    row(171, "timer_start", &[Plain, Plain, Plain], Scalar).shared(Writes),
    row(172, "timer_cancel", &[Plain], Scalar).shared(Writes),
    row(173, "get_func_ip", &[Context], Scalar).context(Reads).droppable(),
    row(174, "get_attach_cookie", &[Context], Scalar).context(Reads).droppable(),
    row(175, "task_pt_regs", &[Plain], Pointer),
    row(176, "get_branch_snapshot", &[change(1), Plain, Plain], Scalar),
    row(177, "trace_vprintk", &[read(1), Plain, gather(3), Plain], Scalar).packet(Reads).shared(Reads),
    row(178, "skc_to_unix_sock", &[Plain], PointerOrNull),
    row(179, "kallsyms_lookup_name", &[read(1), Plain, Plain, object(8)], Scalar),
    row(182, "strncmp", &[read(1), Plain, Plain], Scalar).shared(Reads),
    row(183, "get_func_arg", &[Context, Plain, object(8)], Scalar).context(Reads),
    row(184, "get_func_ret", &[Context, object(8)], Scalar).context(Reads),
    row(185, "get_func_arg_cnt", &[Context], Scalar).context(Reads).droppable(),
    row(186, "get_retval", &[], Scalar).context(Reads).droppable(),
    row(187, "set_retval", &[Plain], Scalar).context(Writes),
    row(188, "xdp_get_buff_len", &[Context], WORD).context(Reads).droppable(),
    row(189, "xdp_load_bytes", &[Context, Word, change(3), Plain], Scalar).packet(Reads).context(Reads),
    row(190, "xdp_store_bytes", &[Context, Word, read(3), Plain], Scalar).packet(Writes).context(Reads),
    row(191, "copy_from_user_task", &[change(1), Plain, Plain, Plain, Plain], Scalar).shared(Reads),
    row(192, "skb_set_tstamp", &[Context, Plain, Plain], Scalar).context(Writes),
    row(193, "ima_file_hash", &[Plain, change(2), Plain], Scalar).shared(Writes),
    row(194, "kptr_xchg", &[object(8), Plain], PointerOrNull).shared(Writes),
    row(195, "map_lookup_percpu_elem", &[Map, Key, Plain], MapValueOrNull).droppable(),
    row(196, "skc_to_mptcp_sock", &[Plain], PointerOrNull),
    row(204, "tcp_raw_gen_syncookie_ipv4", &[Read(Bytes(20)), read(2), Plain], Scalar),
    row(205, "tcp_raw_gen_syncookie_ipv6", &[Read(Bytes(40)), read(2), Plain], Scalar),
    row(206, "tcp_raw_check_syncookie_ipv4", &[Read(Bytes(20)), Read(Bytes(20))], Scalar),
    row(207, "tcp_raw_check_syncookie_ipv6", &[Read(Bytes(40)), Read(Bytes(20))], Scalar),
    row(208, "ktime_get_tai_ns", &[], Scalar).droppable(),
    row(210, "cgrp_storage_get", &[Map, Plain, Value, Plain], MapValueOrNull).shared(Writes),
    row(211, "cgrp_storage_delete", &[Map, Plain], Scalar).shared(Writes),
];

/// By number.
#[rustfmt::skip]
pub(super) static NAMES: &[&str] = &[
    "unspec", "map_lookup_elem", "map_update_elem", "map_delete_elem", "probe_read", "ktime_get_ns", "trace_printk",
    "get_prandom_u32", "get_smp_processor_id", "skb_store_bytes", "l3_csum_replace", "l4_csum_replace", "tail_call",
    "clone_redirect", "get_current_pid_tgid", "get_current_uid_gid", "get_current_comm", "get_cgroup_classid",
    "skb_vlan_push", "skb_vlan_pop", "skb_get_tunnel_key", "skb_set_tunnel_key", "perf_event_read", "redirect",
    "get_route_realm", "perf_event_output", "skb_load_bytes", "get_stackid", "csum_diff", "skb_get_tunnel_opt",
    "skb_set_tunnel_opt", "skb_change_proto", "skb_change_type", "skb_under_cgroup", "get_hash_recalc",
    "get_current_task", "probe_write_user", "current_task_under_cgroup", "skb_change_tail", "skb_pull_data",
    "csum_update", "set_hash_invalid", "get_numa_node_id", "skb_change_head", "xdp_adjust_head", "probe_read_str",
    "get_socket_cookie", "get_socket_uid", "set_hash", "setsockopt", "skb_adjust_room", "redirect_map",
    "sk_redirect_map", "sock_map_update", "xdp_adjust_meta", "perf_event_read_value", "perf_prog_read_value",
    "getsockopt", "override_return", "sock_ops_cb_flags_set", "msg_redirect_map", "msg_apply_bytes", "msg_cork_bytes",
    "msg_pull_data", "bind", "xdp_adjust_tail", "skb_get_xfrm_state", "get_stack", "skb_load_bytes_relative",
    "fib_lookup", "sock_hash_update", "msg_redirect_hash", "sk_redirect_hash", "lwt_push_encap",
    "lwt_seg6_store_bytes", "lwt_seg6_adjust_srh", "lwt_seg6_action", "rc_repeat", "rc_keydown", "skb_cgroup_id",
    "get_current_cgroup_id", "get_local_storage", "sk_select_reuseport", "skb_ancestor_cgroup_id", "sk_lookup_tcp",
    "sk_lookup_udp", "sk_release", "map_push_elem", "map_pop_elem", "map_peek_elem", "msg_push_data", "msg_pop_data",
    "rc_pointer_rel", "spin_lock", "spin_unlock", "sk_fullsock", "tcp_sock", "skb_ecn_set_ce", "get_listener_sock",
    "skc_lookup_tcp", "tcp_check_syncookie", "sysctl_get_name", "sysctl_get_current_value", "sysctl_get_new_value",
    "sysctl_set_new_value", "strtol", "strtoul", "sk_storage_get", "sk_storage_delete", "send_signal",
    "tcp_gen_syncookie", "skb_output", "probe_read_user", "probe_read_kernel", "probe_read_user_str",
    "probe_read_kernel_str", "tcp_send_ack", "send_signal_thread", "jiffies64", "read_branch_records",
    "get_ns_current_pid_tgid", "xdp_output", "get_netns_cookie", "get_current_ancestor_cgroup_id", "sk_assign",
    "ktime_get_boot_ns", "seq_printf", "seq_write", "sk_cgroup_id", "sk_ancestor_cgroup_id", "ringbuf_output",
    "ringbuf_reserve", "ringbuf_submit", "ringbuf_discard", "ringbuf_query", "csum_level", "skc_to_tcp6_sock",
    "skc_to_tcp_sock", "skc_to_tcp_timewait_sock", "skc_to_tcp_request_sock", "skc_to_udp6_sock", "get_task_stack",
    "load_hdr_opt", "store_hdr_opt", "reserve_hdr_opt", "inode_storage_get", "inode_storage_delete", "d_path",
    "copy_from_user", "snprintf_btf", "seq_printf_btf", "skb_cgroup_classid", "redirect_neigh", "per_cpu_ptr",
    "this_cpu_ptr", "redirect_peer", "task_storage_get", "task_storage_delete", "get_current_task_btf",
    "bprm_opts_set", "ktime_get_coarse_ns", "ima_inode_hash", "sock_from_file", "check_mtu", "for_each_map_elem",
    "snprintf", "sys_bpf", "btf_find_by_name_kind", "sys_close", "timer_init", "timer_set_callback", "timer_start",
    "timer_cancel", "get_func_ip", "get_attach_cookie", "task_pt_regs", "get_branch_snapshot", "trace_vprintk",
    "skc_to_unix_sock", "kallsyms_lookup_name", "find_vma", "loop", "strncmp", "get_func_arg", "get_func_ret",
    "get_func_arg_cnt", "get_retval", "set_retval", "xdp_get_buff_len", "xdp_load_bytes", "xdp_store_bytes",
    "copy_from_user_task", "skb_set_tstamp", "ima_file_hash", "kptr_xchg", "map_lookup_percpu_elem",
    "skc_to_mptcp_sock", "dynptr_from_mem", "ringbuf_reserve_dynptr", "ringbuf_submit_dynptr",
    "ringbuf_discard_dynptr", "dynptr_read", "dynptr_write", "dynptr_data", "tcp_raw_gen_syncookie_ipv4",
    "tcp_raw_gen_syncookie_ipv6", "tcp_raw_check_syncookie_ipv4", "tcp_raw_check_syncookie_ipv6", "ktime_get_tai_ns",
    "user_ringbuf_drain", "cgrp_storage_get", "cgrp_storage_delete",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helper::Length;
    use std::fs;

    #[test]
    fn rows_are_sorted_and_named_as_in_the_list_of_names() {
        assert!(CONTRACTS.windows(2).all(|pair| pair[0].id < pair[1].id));
        for c in CONTRACTS {
            assert_eq!(NAMES.get(c.id as usize), Some(&c.name));
            assert_eq!(crate::helper::contract(c.id), Some(c));
            assert_eq!(crate::helper::id(c.name), Some(c.id));
        }
    }

    #[test]
    fn rows_do_not_contradict_themselves() {
        for c in CONTRACTS {
            assert!(c.args.len() <= 5, "{}", c.name);
            for arg in c.args {
                if let Read(n) | Write(n) | ReadWrite(n) | Gather(n) = arg {
                    let is_number = |n: usize| c.args.get(n) == Some(&Plain);
                    assert!(
                        matches!(n, Bytes(_)) || matches!(n, Length::Arg(n) if is_number(*n as usize)),
                        "{}",
                        c.name
                    );
                }
                assert!(*arg != Optional || c.args.last() == Some(&Optional), "{}: missing arguments are last", c.name);
                assert!(!matches!(arg, Key | Value) || c.args.contains(&Map), "{}: of which map?", c.name);
                let writes = matches!(arg, Write(_) | ReadWrite(_) | Opaque);
                assert!(!(writes && c.droppable), "{} writes memory", c.name);
            }
            if c.args.iter().any(|a| matches!(a, Gather(_) | Optional)) {
                assert!(c.packet >= Reads && c.shared >= Reads, "{} follows any address", c.name);
            }
            if c.droppable {
                assert!(c.packet <= Reads && c.shared <= Reads && c.context <= Reads, "{} leaves traces", c.name);
            }
            assert_eq!(c.packet == Moves, c.packet == Moves && c.context == Writes, "{}", c.name);
            assert!(c.shared != Moves && c.context != Moves, "only packets move: {}", c.name);
            if c.args.contains(&Context) {
                assert!(c.context >= Reads, "{} gets the context", c.name);
            }
            if let MemoryOrNull(n) = c.returns {
                assert_eq!(c.args.get(n as usize), Some(&Plain), "{}", c.name);
            }
        }
    }

    /// Names and numbers against the kernel's own list, where its headers are installed.
    #[test]
    fn names_are_those_of_the_kernel() {
        let path = "/usr/include/linux/bpf.h";
        let Ok(header) = fs::read_to_string(path) else {
            eprintln!("SKIPPED: {path} is not there, helper names are not compared");
            return;
        };
        let mapper = header.split("_BPF_FUNC_MAPPER(").nth(1).expect("the header has a list of helpers");
        let mapper = mapper.split("\n\n").next().unwrap_or_default();
        // Newer headers write `FN(name, number, ctx..)`, older ones `FN(name)` in order.
        let mut compared = 0;
        for (position, entry) in mapper.split("FN(").skip(1).enumerate() {
            let fields: Vec<&str> = entry.split(')').next().unwrap_or_default().split(',').map(str::trim).collect();
            let number = fields.get(1).and_then(|n| n.parse().ok()).unwrap_or(position);
            if fields[0] == "x" || fields[0].is_empty() {
                continue;
            }
            assert_eq!(NAMES.get(number), Some(&fields[0]), "helper {number}");
            compared += 1;
        }
        assert!(compared > 150, "only {compared} helpers found in {path}");
    }
}

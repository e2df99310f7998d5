// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Count packets while counting is switched on, and let every packet pass.
//
//   switch it on:  bpftool map update name control key 0 0 0 0 value 1 0 0 0
//   read it:       bpftool map dump name packets

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

// Element 0: whether to count.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} packets SEC(".maps");

SEC("xdp")
int xdp_pktcntr(struct xdp_md *ctx)
{
	__u32 first = 0;
	__u32 *is_on = bpf_map_lookup_elem(&control, &first);
	__u64 *count;

	if (!is_on || !*is_on)
		return XDP_PASS;
	count = bpf_map_lookup_elem(&packets, &first);
	if (count)
		*count += 1;
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";

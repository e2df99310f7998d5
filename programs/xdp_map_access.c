// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Count frames by EtherType in a hash table and drop them: what a map access costs in the driver.
// Only EtherTypes that are in the table are counted.
//
//   watch IPv4:  bpftool map update name frames key 8 0 value 0 0 0 0 0 0 0 0

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __be16);
	__type(value, __u64);
} frames SEC(".maps");

SEC("xdp")
int xdp_map_access(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	__u64 *count;
	__be16 type;

	if ((void *)(eth + 1) > data_end)
		return XDP_ABORTED;
	type = eth->h_proto;
	count = bpf_map_lookup_elem(&frames, &type);
	if (count)
		__sync_fetch_and_add(count, 1);
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual MIT/GPL";

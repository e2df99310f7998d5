// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Counts packets by protocol, and sends them back out of the device they came in by, with the hardware
 * addresses exchanged: the task of the kernel sample xdp2. */
#include "packet.h"
#include <linux/ipv6.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u64);
} packets SEC(".maps");

static __always_inline int protocol_of(struct ethhdr *ethernet, void *end)
{
	if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(ethernet + 1);

		return (void *)(ip + 1) > end ? -1 : ip->protocol;
	}
	if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(ethernet + 1);

		return (void *)(ip + 1) > end ? -1 : ip->nexthdr;
	}
	return 0;
}

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = (void *)(long)ctx->data;
	int protocol;
	__u32 key;
	__u64 *count;

	if ((void *)(ethernet + 1) > end)
		return XDP_DROP;
	protocol = protocol_of(ethernet, end);
	if (protocol < 0)
		return XDP_DROP;
	key = protocol;
	count = bpf_map_lookup_elem(&packets, &key);
	if (count)
		*count += 1;
	swap_ethernet(ethernet);
	return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

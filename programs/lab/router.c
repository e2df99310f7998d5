// SPDX-License-Identifier: Apache-2.0 OR MIT
/* A router for IPv4: the longest prefix says the next hop, a table its hardware address; time to live and
 * checksum are brought up to date. `router` has tables of its own (the task of the kernel sample
 * xdp_router_ipv4), `fib` asks the kernel's (that of xdp_fwd). Both send back out of the device that frames
 * came in by; `fib` looks up where they came from, so that there is a route in a network of two. */
#include "packet.h"

#define FAMILY_IPV4 2 /* AF_INET */

struct prefix {
	__u32 length;
	__be32 address;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix);
	__type(value, __u32);
} routes SEC(".maps");

struct hop {
	__u8 destination[ETH_ALEN];
	__u8 source[ETH_ALEN];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct hop);
} hops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} routed SEC(".maps");

/* One less to live; the sum changes by the same (RFC 1141). */
static __always_inline void age(struct iphdr *ip)
{
	__u32 sum = ip->check;

	sum += bpf_htons(0x0100);
	ip->check = sum + (sum >= 0xffff);
	ip->ttl--;
}

static __always_inline void count(void)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&routed, &zero);

	if (n)
		*n += 1;
}

SEC("xdp")
int router(struct xdp_md *ctx)
{
	struct ethhdr *ethernet = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(ethernet + 1);
	struct prefix prefix = { .length = 32 };
	struct hop *hop;
	__u32 *number;

	if ((void *)(ip + 1) > (void *)(long)ctx->data_end || ethernet->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	if (ip->ttl <= 1)
		return XDP_PASS;
	prefix.address = ip->daddr;
	number = bpf_map_lookup_elem(&routes, &prefix);
	if (!number)
		return XDP_PASS;
	hop = bpf_map_lookup_elem(&hops, number);
	if (!hop)
		return XDP_PASS;
	age(ip);
	__builtin_memcpy(ethernet->h_dest, hop->destination, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, hop->source, ETH_ALEN);
	count();
	return XDP_TX;
}

SEC("xdp")
int fib(struct xdp_md *ctx)
{
	struct ethhdr *ethernet = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(ethernet + 1);
	struct bpf_fib_lookup question = {};

	if ((void *)(ip + 1) > (void *)(long)ctx->data_end || ethernet->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	if (ip->ttl <= 1)
		return XDP_PASS;
	question.family = FAMILY_IPV4;
	question.tos = ip->tos;
	question.l4_protocol = ip->protocol;
	question.tot_len = bpf_ntohs(ip->tot_len);
	question.ipv4_src = ip->daddr;
	question.ipv4_dst = ip->saddr;
	question.ifindex = ctx->ingress_ifindex;
	if (bpf_fib_lookup(ctx, &question, sizeof(question), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	if (question.ifindex != ctx->ingress_ifindex)
		return XDP_PASS;
	age(ip);
	__builtin_memcpy(ethernet->h_dest, question.dmac, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, question.smac, ETH_ALEN);
	count();
	return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A firewall without state of its own: a table says, flow by flow, what happens to a packet.
// A flow is protocol, addresses and ports of a TCP or UDP packet over IPv4. Flows that are not in the
// table are dropped; what is not TCP or UDP over IPv4 passes. A rule is for both directions: the end
// with the smaller address, as a number in memory, comes first.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct flow {
	__be32 low;
	__be32 high;
	__be16 low_port;
	__be16 high_port;
	__u32 protocol;
};

struct rule {
	__u32 verdict; // XDP_PASS, XDP_DROP, XDP_TX
	__u32 reserved;
	__u64 packets;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct flow);
	__type(value, struct rule);
} rules SEC(".maps");

// TCP and UDP headers begin alike.
struct ports {
	__be16 source;
	__be16 destination;
};

SEC("xdp")
int xdp_fw(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct flow flow = {};
	struct ports *ports;
	struct rule *rule;

	if ((void *)(eth + 1) > data_end)
		return XDP_DROP;
	if (eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	if ((void *)(ip + 1) > data_end)
		return XDP_DROP;
	if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP)
		return XDP_PASS;
	// A header with options is not worth the trouble: nobody sends one in good faith.
	if (ip->ihl != 5)
		return XDP_DROP;
	ports = (void *)(ip + 1);
	if ((void *)(ports + 1) > data_end)
		return XDP_DROP;

	if (ip->saddr < ip->daddr) {
		flow.low = ip->saddr;
		flow.high = ip->daddr;
		flow.low_port = ports->source;
		flow.high_port = ports->destination;
	} else {
		flow.low = ip->daddr;
		flow.high = ip->saddr;
		flow.low_port = ports->destination;
		flow.high_port = ports->source;
	}
	flow.protocol = ip->protocol;
	rule = bpf_map_lookup_elem(&rules, &flow);
	if (!rule)
		return XDP_DROP;
	__sync_fetch_and_add(&rule->packets, 1);
	__sync_fetch_and_add(&rule->bytes, data_end - data);
	return rule->verdict;
}

char _license[] SEC("license") = "Dual MIT/GPL";

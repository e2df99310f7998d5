// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Count packets and bytes by protocol, drop what is malformed, and answer UDP echo requests (port 7)
// from the driver: swap the addresses and send the frame back where it came from.
//
// Read the counters with: bpftool map dump name counters

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_VLAN_TAGS 2
#define MAX_IPV6_EXTENSIONS 4
#define ECHO_PORT 7

// Slots 0..255 are IP protocol numbers; the rest is what is not IP.
enum {
	SLOT_ARP = 256,
	SLOT_OTHER,
	SLOT_MALFORMED,
	SLOT_FRAGMENT,
	SLOT_ECHO,
	SLOT_COUNT,
};

struct vlan_header {
	__be16 tci;
	__be16 proto;
};

struct ipv6_extension {
	__u8 next;
	__u8 length; // in 8-byte units, without the first
};

struct counter {
	__u64 packets;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SLOT_COUNT);
	__type(key, __u32);
	__type(value, struct counter);
} counters SEC(".maps");

static __always_inline int count(struct xdp_md *ctx, __u32 slot, int verdict)
{
	struct counter *counter = bpf_map_lookup_elem(&counters, &slot);

	if (counter) {
		counter->packets++;
		counter->bytes += ctx->data_end - ctx->data;
	}
	return verdict;
}

static __always_inline void swap_mac(struct ethhdr *eth)
{
	__u8 mac[ETH_ALEN];

	__builtin_memcpy(mac, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, mac, ETH_ALEN);
}

// Swapping addresses and ports leaves the IP and UDP checksums as they are.
static __always_inline void swap_ports(struct udphdr *udp)
{
	__be16 port = udp->source;

	udp->source = udp->dest;
	udp->dest = port;
}

static __always_inline void swap_ipv4(struct iphdr *ip)
{
	__be32 address = ip->saddr;

	ip->saddr = ip->daddr;
	ip->daddr = address;
}

static __always_inline void swap_ipv6(struct ipv6hdr *ip6)
{
	struct in6_addr address = ip6->saddr;

	ip6->saddr = ip6->daddr;
	ip6->daddr = address;
}

// A request that comes from the echo port itself would be echoed for ever between two such hosts.
static __always_inline int is_echo_request(struct udphdr *udp, void *data_end)
{
	if ((void *)(udp + 1) > data_end)
		return 0;
	return udp->dest == bpf_htons(ECHO_PORT) && udp->source != bpf_htons(ECHO_PORT);
}

static __always_inline int handle_ipv4(struct xdp_md *ctx, struct ethhdr *eth, void *cursor, void *data_end)
{
	struct iphdr *ip = cursor;
	struct udphdr *udp;

	if ((void *)(ip + 1) > data_end)
		return count(ctx, SLOT_MALFORMED, XDP_DROP);
	if (ip->version != 4 || ip->ihl < 5)
		return count(ctx, SLOT_MALFORMED, XDP_DROP);
	if (bpf_ntohs(ip->tot_len) < ip->ihl * 4)
		return count(ctx, SLOT_MALFORMED, XDP_DROP);
	// Only the first fragment has a transport header: more-fragments bit or an offset.
	if (ip->frag_off & bpf_htons(0x3fff))
		return count(ctx, SLOT_FRAGMENT, XDP_PASS);

	udp = cursor + ip->ihl * 4;
	if (ip->protocol == IPPROTO_UDP && is_echo_request(udp, data_end)) {
		swap_mac(eth);
		swap_ipv4(ip);
		swap_ports(udp);
		return count(ctx, SLOT_ECHO, XDP_TX);
	}
	return count(ctx, ip->protocol, XDP_PASS);
}

static __always_inline int handle_ipv6(struct xdp_md *ctx, struct ethhdr *eth, void *cursor, void *data_end)
{
	struct ipv6hdr *ip6 = cursor;
	struct udphdr *udp;
	__u8 next;
	int i;

	if ((void *)(ip6 + 1) > data_end)
		return count(ctx, SLOT_MALFORMED, XDP_DROP);
	if (ip6->version != 6)
		return count(ctx, SLOT_MALFORMED, XDP_DROP);

	next = ip6->nexthdr;
	cursor = ip6 + 1;
#pragma unroll
	for (i = 0; i < MAX_IPV6_EXTENSIONS; i++) {
		struct ipv6_extension *extension = cursor;

		if (next == IPPROTO_FRAGMENT)
			return count(ctx, SLOT_FRAGMENT, XDP_PASS);
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS)
			break;
		if ((void *)(extension + 1) > data_end)
			return count(ctx, SLOT_MALFORMED, XDP_DROP);
		next = extension->next;
		cursor += (extension->length + 1) * 8;
	}

	udp = cursor;
	if (next == IPPROTO_UDP && is_echo_request(udp, data_end)) {
		swap_mac(eth);
		swap_ipv6(ip6);
		swap_ports(udp);
		return count(ctx, SLOT_ECHO, XDP_TX);
	}
	return count(ctx, next, XDP_PASS);
}

SEC("xdp")
int xdp_count(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	void *cursor = eth + 1;
	__be16 proto;
	int i;

	if (cursor > data_end)
		return count(ctx, SLOT_MALFORMED, XDP_DROP);

	proto = eth->h_proto;
#pragma unroll
	for (i = 0; i < MAX_VLAN_TAGS; i++) {
		struct vlan_header *vlan = cursor;

		if (proto != bpf_htons(ETH_P_8021Q) && proto != bpf_htons(ETH_P_8021AD))
			break;
		if ((void *)(vlan + 1) > data_end)
			return count(ctx, SLOT_MALFORMED, XDP_DROP);
		proto = vlan->proto;
		cursor = vlan + 1;
	}

	switch (proto) {
	case bpf_htons(ETH_P_IP):
		return handle_ipv4(ctx, eth, cursor, data_end);
	case bpf_htons(ETH_P_IPV6):
		return handle_ipv6(ctx, eth, cursor, data_end);
	case bpf_htons(ETH_P_ARP):
		return count(ctx, SLOT_ARP, XDP_PASS);
	default:
		return count(ctx, SLOT_OTHER, XDP_PASS);
	}
}

char _license[] SEC("license") = "Dual MIT/GPL";

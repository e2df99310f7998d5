// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A layer-4 load balancer in the driver. Packets to a service address are wrapped into an outer IP
// header (IPIP, IP6IP6, or IPv4 in IPv6) and sent on to one of the service's backends, which answers the
// client directly. The backend of a connection is, in this order:
//
//   1. for QUIC, the one that the connection ID names, where the service says so;
//   2. the one that the connection had before, from a table of recent connections;
//   3. the one at the connection's place on the service's consistent-hashing ring.
//
// ICMP errors about a connection follow it; echo requests to a service address are answered here.
// What is for no service address passes.
//
// User space fills the maps. For service number N the ring's elements are N * RING_SLOTS and the
// following. A service address that answers echo requests is also a service with protocol and port 0.

#include <linux/bpf.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_SERVICES 16
#define MAX_BACKENDS 256
#define MAX_CONNECTIONS 65536
#define MAX_QUIC_IDS 4096
// A prime, so that every stride visits the whole ring.
#define RING_SLOTS 4093

// linux/icmp.h cannot be had without the C library's headers for 32-bit machines.
#define ICMP_ECHOREPLY 0
#define ICMP_DEST_UNREACH 3
#define ICMP_ECHO 8
#define ICMP_TIME_EXCEEDED 11

struct icmp_header {
	__u8 type;
	__u8 code;
	__sum16 checksum;
	__be32 rest;
};

#define OUTER_TTL 64
#define FRAGMENT_BITS 0x3fff // more fragments, and the offset
#define QUIC_PORT 443

// More new connections than that in a second on one CPU look like a flood: they are spread by the ring
// alone, and recent connections are not pushed out of the table.
#define MAX_NEW_PER_SECOND 125000
#define SECOND_NS 1000000000ull

enum service_flags {
	SERVICE_NO_TABLE = 1 << 0,	   // a connection's place on the ring is enough
	SERVICE_IGNORE_SOURCE_PORT = 1 << 1, // all connections of a client go to one backend
	SERVICE_QUIC = 1 << 2,
};

union address {
	__be32 v4;
	__be32 v6[4];
};

struct service_key {
	union address address;
	__be16 port; // 0: any
	__u8 protocol;
	__u8 pad;
};

struct service {
	__u32 number;
	__u32 flags;
};

struct flow {
	union address source;
	union address destination;
	__be16 source_port;
	__be16 destination_port;
	__u8 protocol;
	__u8 pad[3];
};

struct connection {
	__u32 backend;
	__u32 pad;
	__u64 seen_ns;
};

struct backend {
	union address address;
	__u32 is_ipv6;
};

struct settings {
	__u8 gateway[ETH_ALEN];
	__u8 pad[2];
	__be32 source_v4;
	__be32 source_v6[4];
};

struct traffic {
	__u64 packets;
	__u64 bytes;
};

// Counters of what happened, in one array.
enum event {
	EVENT_FROM_TABLE,
	EVENT_FROM_RING,
	EVENT_FROM_QUIC_ID,
	EVENT_UNKNOWN_QUIC_ID,
	EVENT_FLOOD,
	EVENT_ICMP_ERROR,
	EVENT_ECHO,
	EVENT_NO_BACKEND,
	EVENT_COUNT,
};

struct arrivals {
	__u64 since_ns;
	__u64 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SERVICES);
	__type(key, struct service_key);
	__type(value, struct service);
} services SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_CONNECTIONS);
	__type(key, struct flow);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SERVICES *RING_SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_BACKENDS);
	__type(key, __u32);
	__type(value, struct backend);
} backends SEC(".maps");

// Backend number by the identifier in a QUIC connection ID; 0 is none.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_QUIC_IDS);
	__type(key, __u32);
	__type(value, __u32);
} quic_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_SERVICES);
	__type(key, __u32);
	__type(value, struct traffic);
} service_traffic SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_BACKENDS);
	__type(key, __u32);
	__type(value, struct traffic);
} backend_traffic SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, EVENT_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct arrivals);
} new_connections SEC(".maps");

// A packet, as far as it was understood.
struct packet {
	struct flow flow;
	__u32 bytes; // of the IP packet
	__u8 traffic_class;
	__u8 is_syn;
	__u8 is_icmp_error;
};

static __always_inline void note(__u32 event)
{
	__u64 *count = bpf_map_lookup_elem(&events, &event);

	if (count)
		(*count)++;
}

static __always_inline void add_traffic(void *map, __u32 number, __u32 bytes)
{
	struct traffic *traffic = bpf_map_lookup_elem(map, &number);

	if (traffic) {
		traffic->packets++;
		traffic->bytes += bytes;
	}
}

// --- hashing: Bob Jenkins' lookup3 -------------------------------------------------------------

static __always_inline __u32 rotate(__u32 word, __u32 bits)
{
	return word << bits | word >> (32 - bits);
}

struct hash {
	__u32 a, b, c;
};

static __always_inline void mix(struct hash *h)
{
	h->a -= h->c; h->a ^= rotate(h->c, 4); h->c += h->b;
	h->b -= h->a; h->b ^= rotate(h->a, 6); h->a += h->c;
	h->c -= h->b; h->c ^= rotate(h->b, 8); h->b += h->a;
	h->a -= h->c; h->a ^= rotate(h->c, 16); h->c += h->b;
	h->b -= h->a; h->b ^= rotate(h->a, 19); h->a += h->c;
	h->c -= h->b; h->c ^= rotate(h->b, 4); h->b += h->a;
}

static __always_inline __u32 finish(struct hash *h)
{
	h->c ^= h->b; h->c -= rotate(h->b, 14);
	h->a ^= h->c; h->a -= rotate(h->c, 11);
	h->b ^= h->a; h->b -= rotate(h->a, 25);
	h->c ^= h->b; h->c -= rotate(h->b, 16);
	h->a ^= h->c; h->a -= rotate(h->c, 4);
	h->b ^= h->a; h->b -= rotate(h->a, 14);
	h->c ^= h->b; h->c -= rotate(h->b, 24);
	return h->c;
}

// Of the client's side of a flow; `seed` keeps services apart.
static __always_inline __u32 hash_of(const struct flow *flow, int is_ipv6, __u32 ports, __u32 seed)
{
	__u32 start = 0xdeadbeef + seed;
	struct hash h = { start, start, start };

	h.a += flow->source.v6[0];
	if (is_ipv6) {
		h.b += flow->source.v6[1];
		h.c += flow->source.v6[2];
		mix(&h);
		h.a += flow->source.v6[3];
	}
	h.b += ports;
	return finish(&h);
}

// --- reading packets ---------------------------------------------------------------------------
// These return an XDP verdict to give at once, or PROCEED.

#define PROCEED -1

static __always_inline int read_ipv4(struct packet *packet, struct iphdr *ip, void *data_end)
{
	if ((void *)(ip + 1) > data_end)
		return XDP_DROP;
	// Options and fragments would need more than one packet, or a slower path, to understand.
	if (ip->ihl != 5)
		return XDP_DROP;
	if (ip->frag_off & bpf_htons(FRAGMENT_BITS))
		return XDP_DROP;
	packet->flow.source.v4 = ip->saddr;
	packet->flow.destination.v4 = ip->daddr;
	packet->flow.protocol = ip->protocol;
	packet->bytes = bpf_ntohs(ip->tot_len);
	packet->traffic_class = ip->tos;
	return PROCEED;
}

static __always_inline int read_ipv6(struct packet *packet, struct ipv6hdr *ip, void *data_end)
{
	if ((void *)(ip + 1) > data_end)
		return XDP_DROP;
	if (ip->nexthdr == IPPROTO_FRAGMENT)
		return XDP_DROP;
	__builtin_memcpy(packet->flow.source.v6, ip->saddr.s6_addr32, sizeof(ip->saddr));
	__builtin_memcpy(packet->flow.destination.v6, ip->daddr.s6_addr32, sizeof(ip->daddr));
	packet->flow.protocol = ip->nexthdr;
	packet->bytes = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	packet->traffic_class = ip->priority << 4 | ip->flow_lbl[0] >> 4;
	return PROCEED;
}

// Ports of the header at `cursor`. In an ICMP error it is that of a packet of ours, the other way round.
static __always_inline int read_ports(struct packet *packet, void *cursor, void *data_end)
{
	struct udphdr *udp = cursor;
	struct tcphdr *tcp = cursor;

	if (packet->flow.protocol == IPPROTO_TCP) {
		// An ICMP error need not carry more than eight bytes of it.
		if (packet->is_icmp_error) {
			if (cursor + 8 > data_end)
				return XDP_DROP;
		} else {
			if ((void *)(tcp + 1) > data_end)
				return XDP_DROP;
			packet->is_syn = tcp->syn;
		}
	} else if (packet->flow.protocol == IPPROTO_UDP) {
		if ((void *)(udp + 1) > data_end)
			return XDP_DROP;
	} else {
		return XDP_PASS;
	}
	packet->flow.source_port = packet->is_icmp_error ? udp->dest : udp->source;
	packet->flow.destination_port = packet->is_icmp_error ? udp->source : udp->dest;
	return PROCEED;
}

// --- ICMP --------------------------------------------------------------------------------------

static __always_inline void swap_mac(struct ethhdr *eth)
{
	__u8 mac[ETH_ALEN];

	__builtin_memcpy(mac, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, mac, ETH_ALEN);
}

// The checksum after a 16-bit word of what it covers went from `from` to `to` (RFC 1624).
static __always_inline __sum16 adjust_checksum(__sum16 checksum, __be16 from, __be16 to)
{
	__u32 sum = (__u16)~checksum + (__u16)~from + to;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline __u16 ipv4_checksum(struct iphdr *ip)
{
	__u16 *words = (__u16 *)ip;
	__u32 sum = 0;
	int i;

#pragma unroll
	for (i = 0; i < (int)sizeof(*ip) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline int is_service_address(const union address *address)
{
	struct service_key key = {};

	key.address = *address;
	return bpf_map_lookup_elem(&services, &key) != NULL;
}

static __always_inline int answer_echo_ipv4(struct ethhdr *eth, struct iphdr *ip, struct icmp_header *icmp)
{
	__be32 address = ip->saddr;

	ip->saddr = ip->daddr;
	ip->daddr = address;
	ip->ttl = OUTER_TTL;
	ip->check = 0;
	ip->check = ipv4_checksum(ip);
	icmp->type = ICMP_ECHOREPLY;
	icmp->checksum = adjust_checksum(icmp->checksum, bpf_htons(ICMP_ECHO << 8), bpf_htons(ICMP_ECHOREPLY << 8));
	swap_mac(eth);
	note(EVENT_ECHO);
	return XDP_TX;
}

static __always_inline int answer_echo_ipv6(struct ethhdr *eth, struct ipv6hdr *ip, struct icmp6hdr *icmp)
{
	struct in6_addr address = ip->saddr;

	ip->saddr = ip->daddr;
	ip->daddr = address;
	ip->hop_limit = OUTER_TTL;
	icmp->icmp6_type = ICMPV6_ECHO_REPLY;
	icmp->icmp6_cksum = adjust_checksum(icmp->icmp6_cksum, bpf_htons(ICMPV6_ECHO_REQUEST << 8),
					    bpf_htons(ICMPV6_ECHO_REPLY << 8));
	swap_mac(eth);
	note(EVENT_ECHO);
	return XDP_TX;
}

// The flow that an error is about: what a backend sent, turned round.
static __always_inline void turn_round(struct flow *flow, const union address *from, const union address *to)
{
	flow->source = *to;
	flow->destination = *from;
}

static __always_inline int read_icmp_ipv4(struct packet *packet, struct ethhdr *eth, struct iphdr *ip, void **cursor,
					  void *data_end)
{
	struct icmp_header *icmp = *cursor;
	struct iphdr *inner = (void *)(icmp + 1);
	union address from = {}, to = {};

	if ((void *)(icmp + 1) > data_end)
		return XDP_DROP;
	if (icmp->type == ICMP_ECHO && is_service_address(&packet->flow.destination))
		return answer_echo_ipv4(eth, ip, icmp);
	if (icmp->type != ICMP_DEST_UNREACH && icmp->type != ICMP_TIME_EXCEEDED)
		return XDP_PASS;
	if ((void *)(inner + 1) > data_end)
		return XDP_DROP;
	if (inner->ihl != 5)
		return XDP_DROP;
	from.v4 = inner->saddr;
	to.v4 = inner->daddr;
	turn_round(&packet->flow, &from, &to);
	packet->flow.protocol = inner->protocol;
	packet->is_icmp_error = 1;
	*cursor = inner + 1;
	note(EVENT_ICMP_ERROR);
	return PROCEED;
}

static __always_inline int read_icmp_ipv6(struct packet *packet, struct ethhdr *eth, struct ipv6hdr *ip, void **cursor,
					  void *data_end)
{
	struct icmp6hdr *icmp = *cursor;
	struct ipv6hdr *inner = (void *)(icmp + 1);
	union address from, to;

	if ((void *)(icmp + 1) > data_end)
		return XDP_DROP;
	if (icmp->icmp6_type == ICMPV6_ECHO_REQUEST && is_service_address(&packet->flow.destination))
		return answer_echo_ipv6(eth, ip, icmp);
	if (icmp->icmp6_type != ICMPV6_DEST_UNREACH && icmp->icmp6_type != ICMPV6_PKT_TOOBIG &&
	    icmp->icmp6_type != ICMPV6_TIME_EXCEED)
		return XDP_PASS;
	if ((void *)(inner + 1) > data_end)
		return XDP_DROP;
	__builtin_memcpy(from.v6, inner->saddr.s6_addr32, sizeof(from));
	__builtin_memcpy(to.v6, inner->daddr.s6_addr32, sizeof(to));
	turn_round(&packet->flow, &from, &to);
	packet->flow.protocol = inner->nexthdr;
	packet->is_icmp_error = 1;
	*cursor = inner + 1;
	note(EVENT_ICMP_ERROR);
	return PROCEED;
}

// --- choosing the backend ----------------------------------------------------------------------

static __always_inline struct service *find_service(const struct flow *flow)
{
	struct service_key key = {};
	struct service *service;

	key.address = flow->destination;
	key.protocol = flow->protocol;
	key.port = flow->destination_port;
	service = bpf_map_lookup_elem(&services, &key);
	if (service)
		return service;
	key.port = 0;
	return bpf_map_lookup_elem(&services, &key);
}

#define QUIC_LONG_HEADER 0x80
#define QUIC_TYPE_MASK 0x30
#define QUIC_HANDSHAKE 0x20
#define QUIC_SHORT_ID_OFFSET 1
#define QUIC_LONG_ID_OFFSET 6
// Bytes of the connection ID that we look at: its version, and a number of 16 bits.
#define QUIC_ID_BYTES 3
#define QUIC_ID_VERSION 1

// The backend that a QUIC packet's connection ID names, or 0. The first packets of a client carry an
// ID that the client chose, which means nothing.
static __always_inline __u32 backend_of_quic_id(void *udp, void *data_end)
{
	__u8 *first = udp + sizeof(struct udphdr);
	__u8 *id;
	__u32 number;
	__u32 *backend;

	if ((void *)(first + 1) > data_end)
		return 0;
	if (*first & QUIC_LONG_HEADER) {
		if ((*first & QUIC_TYPE_MASK) < QUIC_HANDSHAKE)
			return 0;
		id = first + QUIC_LONG_ID_OFFSET;
	} else {
		id = first + QUIC_SHORT_ID_OFFSET;
	}
	if ((void *)(id + QUIC_ID_BYTES) > data_end)
		return 0;
	if (id[0] >> 6 != QUIC_ID_VERSION)
		return 0;
	number = (__u32)id[1] << 8 | id[2];
	if (number >= MAX_QUIC_IDS)
		return 0;
	backend = bpf_map_lookup_elem(&quic_ids, &number);
	if (backend && *backend) {
		note(EVENT_FROM_QUIC_ID);
		return *backend;
	}
	note(EVENT_UNKNOWN_QUIC_ID);
	return 0;
}

static __always_inline int is_flood(__u64 now_ns)
{
	__u32 first = 0;
	struct arrivals *arrivals = bpf_map_lookup_elem(&new_connections, &first);

	if (!arrivals)
		return 1;
	if (now_ns - arrivals->since_ns > SECOND_NS) {
		arrivals->since_ns = now_ns;
		arrivals->count = 1;
		return 0;
	}
	arrivals->count++;
	if (arrivals->count > MAX_NEW_PER_SECOND) {
		note(EVENT_FLOOD);
		return 1;
	}
	return 0;
}

static __always_inline __u32 backend_of_ring(const struct packet *packet, const struct service *service, int is_ipv6)
{
	const struct flow *flow = &packet->flow;
	__u32 ports = (__u32)flow->source_port << 16 | flow->destination_port;
	__u32 slot;
	__u32 *backend;

	if (service->flags & SERVICE_IGNORE_SOURCE_PORT)
		ports = flow->destination_port;
	slot = hash_of(flow, is_ipv6, ports, service->number) % RING_SLOTS;
	slot += service->number * RING_SLOTS;
	backend = bpf_map_lookup_elem(&ring, &slot);
	note(EVENT_FROM_RING);
	return backend ? *backend : 0;
}

static __always_inline __u32 choose_backend(const struct packet *packet, const struct service *service, int is_ipv6)
{
	int has_table = !(service->flags & SERVICE_NO_TABLE);
	struct connection *known, fresh = {};
	__u64 now_ns;

	if (has_table && !packet->is_syn) {
		known = bpf_map_lookup_elem(&connections, &packet->flow);
		if (known) {
			if (packet->flow.protocol == IPPROTO_UDP)
				known->seen_ns = bpf_ktime_get_ns();
			note(EVENT_FROM_TABLE);
			return known->backend;
		}
	}
	fresh.backend = backend_of_ring(packet, service, is_ipv6);
	if (has_table && fresh.backend && !packet->is_icmp_error) {
		now_ns = bpf_ktime_get_ns();
		if (!is_flood(now_ns)) {
			fresh.seen_ns = now_ns;
			bpf_map_update_elem(&connections, &packet->flow, &fresh, BPF_ANY);
		}
	}
	return fresh.backend;
}

// --- wrapping ----------------------------------------------------------------------------------

static __always_inline void write_ethernet(struct ethhdr *to, const struct ethhdr *from, const struct settings *ours,
					   __be16 type)
{
	// Sent from the interface the packet was for.
	__builtin_memcpy(to->h_source, from->h_dest, ETH_ALEN);
	__builtin_memcpy(to->h_dest, ours->gateway, ETH_ALEN);
	to->h_proto = type;
}

static __always_inline int wrap_in_ipv4(struct xdp_md *ctx, const struct packet *packet, const struct backend *backend,
					const struct settings *ours)
{
	void *data, *data_end;
	struct ethhdr *eth, *old;
	struct iphdr *ip;

	if (bpf_xdp_adjust_head(ctx, 0 - (int)sizeof(*ip)))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	data_end = (void *)(long)ctx->data_end;
	eth = data;
	ip = data + sizeof(*eth);
	old = data + sizeof(*ip);
	if ((void *)(old + 1) > data_end || (void *)(ip + 1) > data_end)
		return XDP_DROP;
	write_ethernet(eth, old, ours, bpf_htons(ETH_P_IP));
	ip->version = 4;
	ip->ihl = sizeof(*ip) / 4;
	ip->tos = packet->traffic_class;
	ip->tot_len = bpf_htons(packet->bytes + sizeof(*ip));
	ip->id = 0;
	ip->frag_off = 0;
	ip->ttl = OUTER_TTL;
	ip->protocol = IPPROTO_IPIP;
	// Routers spread load by addresses: the client's last bits tell our tunnels apart.
	ip->saddr = ours->source_v4 ^ (packet->flow.source.v4 & bpf_htonl(0xffff));
	ip->daddr = backend->address.v4;
	ip->check = 0;
	ip->check = ipv4_checksum(ip);
	return XDP_TX;
}

static __always_inline int wrap_in_ipv6(struct xdp_md *ctx, const struct packet *packet, const struct backend *backend,
					const struct settings *ours, int is_ipv6)
{
	void *data, *data_end;
	struct ethhdr *eth, *old;
	struct ipv6hdr *ip;

	if (bpf_xdp_adjust_head(ctx, 0 - (int)sizeof(*ip)))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	data_end = (void *)(long)ctx->data_end;
	eth = data;
	ip = data + sizeof(*eth);
	old = data + sizeof(*ip);
	if ((void *)(old + 1) > data_end || (void *)(ip + 1) > data_end)
		return XDP_DROP;
	write_ethernet(eth, old, ours, bpf_htons(ETH_P_IPV6));
	ip->version = 6;
	ip->priority = packet->traffic_class >> 4;
	ip->flow_lbl[0] = packet->traffic_class << 4;
	ip->flow_lbl[1] = 0;
	ip->flow_lbl[2] = 0;
	ip->payload_len = bpf_htons(packet->bytes);
	ip->nexthdr = is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IPIP;
	ip->hop_limit = OUTER_TTL;
	__builtin_memcpy(ip->saddr.s6_addr32, ours->source_v6, sizeof(ip->saddr));
	ip->saddr.s6_addr32[3] ^= is_ipv6 ? packet->flow.source.v6[3] : packet->flow.source.v4;
	__builtin_memcpy(ip->daddr.s6_addr32, backend->address.v6, sizeof(ip->daddr));
	return XDP_TX;
}

// --- the way of a packet -----------------------------------------------------------------------

static __always_inline int forward(struct xdp_md *ctx, const struct packet *packet, __u32 number, int is_ipv6)
{
	__u32 first = 0;
	struct settings *ours = bpf_map_lookup_elem(&settings, &first);
	struct backend *backend = bpf_map_lookup_elem(&backends, &number);

	// Backend 0 is never used: it stands for none.
	if (!ours || !backend || !number) {
		note(EVENT_NO_BACKEND);
		return XDP_DROP;
	}
	add_traffic(&backend_traffic, number, packet->bytes);
	if (is_ipv6 || backend->is_ipv6)
		return wrap_in_ipv6(ctx, packet, backend, ours, is_ipv6);
	return wrap_in_ipv4(ctx, packet, backend, ours);
}

static __always_inline int balance(struct xdp_md *ctx, struct ethhdr *eth, void *data_end, int is_ipv6)
{
	struct packet packet = {};
	struct service *service;
	void *ip = eth + 1;
	void *cursor;
	__u32 backend = 0;
	int verdict;

	verdict = is_ipv6 ? read_ipv6(&packet, ip, data_end) : read_ipv4(&packet, ip, data_end);
	if (verdict != PROCEED)
		return verdict;
	cursor = ip + (is_ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	if (is_ipv6 && packet.flow.protocol == IPPROTO_ICMPV6)
		verdict = read_icmp_ipv6(&packet, eth, ip, &cursor, data_end);
	else if (!is_ipv6 && packet.flow.protocol == IPPROTO_ICMP)
		verdict = read_icmp_ipv4(&packet, eth, ip, &cursor, data_end);
	if (verdict != PROCEED)
		return verdict;
	verdict = read_ports(&packet, cursor, data_end);
	if (verdict != PROCEED)
		return verdict;

	service = find_service(&packet.flow);
	if (!service)
		return XDP_PASS;
	if (service->number >= MAX_SERVICES)
		return XDP_DROP;
	if (service->flags & SERVICE_QUIC && packet.flow.protocol == IPPROTO_UDP && !packet.is_icmp_error &&
	    packet.flow.destination_port == bpf_htons(QUIC_PORT))
		backend = backend_of_quic_id(cursor, data_end);
	if (!backend)
		backend = choose_backend(&packet, service, is_ipv6);
	add_traffic(&service_traffic, service->number, packet.bytes);
	return forward(ctx, &packet, backend, is_ipv6);
}

SEC("xdp")
int xdp_balancer(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	if ((void *)(eth + 1) > data_end)
		return XDP_DROP;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return balance(ctx, eth, data_end, 0);
	if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		return balance(ctx, eth, data_end, 1);
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";

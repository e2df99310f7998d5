// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Takes and checks what a server answers that speaks memcached's protocol over UDP: the length of every
 * reply, and all bytes of a share of them. The number of the request says which reply is the right one. */
#include "memcached.h"
#include "packet.h"

#define ASKED_FROM 3031 /* where the kernel's requests come from; others have their own sockets */
#define MOST_REPLY 1408 /* after the UDP header */
#define REPLIES 4096

struct reply {
	__u32 bytes;
	__u32 pad;
	__u8 text[MOST_REPLY]; /* zeros behind the last byte */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, REPLIES);
	__type(key, __u32);
	__type(value, struct reply);
} expected SEC(".maps");

struct counters {
	__u64 is_taking; /* 0 lets everything pass to the sockets */
	__u64 compare_mask; /* one reply in this many, plus one, is compared byte for byte */
	__u64 right;
	__u64 wrong;
	__u64 compared;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

struct headers {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct udphdr udp;
	struct memcached memcached;
} __attribute__((packed));

static __always_inline int is_reply(struct headers *headers, void *end)
{
	return (void *)(headers + 1) <= end && headers->ethernet.h_proto == bpf_htons(ETH_P_IP) &&
	       headers->ip.ihl == 5 && headers->ip.protocol == IPPROTO_UDP && headers->udp.source == bpf_htons(MEMCACHED_PORT) &&
	       headers->udp.dest == bpf_htons(ASKED_FROM);
}

static __always_inline int same_bytes(const __u8 *text, void *end, const struct reply *right)
{
	for (__u32 i = 0; i < MOST_REPLY; i++) {
		if (i >= right->bytes)
			return 1;
		if ((void *)(text + i + 1) > end || text[i] != right->text[i])
			return 0;
	}
	return 1;
}

SEC("xdp")
int take(struct xdp_md *ctx)
{
	struct headers *headers = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u32 zero = 0, key;
	struct counters *counted = bpf_map_lookup_elem(&counters, &zero);
	struct reply *right;
	int is_right;

	if (!counted || !counted->is_taking || !is_reply(headers, end))
		return XDP_PASS;
	key = bpf_ntohs(headers->memcached.request);
	right = bpf_map_lookup_elem(&expected, &key);
	is_right = right && bpf_ntohs(headers->udp.len) == right->bytes + sizeof(struct udphdr) &&
		   bpf_ntohs(headers->ip.tot_len) == right->bytes + sizeof(struct udphdr) + sizeof(struct iphdr);
	if (is_right && ((counted->right + counted->wrong) & counted->compare_mask) == 0) {
		counted->compared++;
		is_right = same_bytes((const __u8 *)&headers->memcached.request, end, right);
	}
	if (is_right)
		counted->right++;
	else
		counted->wrong++;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// SPDX-License-Identifier: Apache-2.0 OR MIT
/* When packets reach each hook. A packet is not changed: the time goes into a slot of an array, found
 * by the packet's sequence number, one column for each hook. */
#include "packet.h"
#include <linux/pkt_cls.h>

#define SLOTS 65536

struct slot {
	__u64 xdp_ns;
	__u64 hook_ns; /* the hook under test */
	__u64 again_ns; /* read right after: what reading the clock takes */
	__u64 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} sockets SEC(".maps");

static __always_inline void reached(__u32 sequence)
{
	__u32 key = sequence & (SLOTS - 1);
	struct slot *slot = bpf_map_lookup_elem(&slots, &key);

	if (!slot)
		return;
	slot->hook_ns = bpf_ktime_get_ns();
	slot->again_ns = bpf_ktime_get_ns();
}

/* Where the way begins. */
SEC("xdp")
int begin(struct xdp_md *ctx)
{
	struct frame *frame = lab_frame((void *)(long)ctx->data, (void *)(long)ctx->data_end);
	struct slot *slot;
	__u32 key;

	if (!frame)
		return XDP_PASS;
	key = frame->stamp.sequence & (SLOTS - 1);
	slot = bpf_map_lookup_elem(&slots, &key);
	if (slot)
		slot->xdp_ns = bpf_ktime_get_ns();
	return XDP_PASS;
}

/* The hook is the one where the way begins: what two clock readings take. */
SEC("xdp")
int begin_and_reach(struct xdp_md *ctx)
{
	struct frame *frame = lab_frame((void *)(long)ctx->data, (void *)(long)ctx->data_end);
	struct slot *slot;
	__u32 key;

	if (!frame)
		return XDP_PASS;
	key = frame->stamp.sequence & (SLOTS - 1);
	slot = bpf_map_lookup_elem(&slots, &key);
	if (slot) {
		slot->xdp_ns = bpf_ktime_get_ns();
		slot->hook_ns = bpf_ktime_get_ns();
		slot->again_ns = bpf_ktime_get_ns();
	}
	return XDP_PASS;
}

SEC("tc")
int reach_tc(struct __sk_buff *skb)
{
	struct frame *frame = lab_frame((void *)(long)skb->data, (void *)(long)skb->data_end);

	if (frame)
		reached(frame->stamp.sequence);
	return TC_ACT_OK;
}

/* A filter on a UDP socket sees the packet from the UDP header on. */
SEC("socket")
int reach_filter(struct __sk_buff *skb)
{
	__u32 sequence;

	if (!bpf_skb_load_bytes(skb, sizeof(struct udphdr) + 8, &sequence, sizeof(sequence)))
		reached(sequence);
	return 0xffff;
}

/* A verdict program on a UDP socket sees the payload. */
SEC("sk_skb/stream_verdict")
int reach_sk_skb(struct __sk_buff *skb)
{
	__u32 sequence;

	if (!bpf_skb_load_bytes(skb, 8, &sequence, sizeof(sequence)))
		reached(sequence);
	return SK_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

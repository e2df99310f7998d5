// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The hook of a container network at a node's uplink: sees everything that comes from the network
// before the stack does. It marks what was decrypted on the way in, so that routing sends it on to the
// overlay, clears marks that only this node may set, and reports packets to whoever watches.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#define MARK_MAGIC_MASK 0x0f00
#define MARK_DECRYPTED 0x0d00
#define MARK_HOST 0x0c00

#define NOTIFY_TRACE 4
#define OBSERVED_FROM_NETWORK 10
#define OBSERVED_DECRYPTED 11
// Bytes of each packet that a report carries.
#define CAPTURE_BYTES 128

struct trace {
	__u8 type;
	__u8 point;
	__u16 cpu;
	__u32 hash;
	__u32 length;
	__u32 captured;
	__u32 mark;
	__u32 ifindex;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} events SEC(".maps");

static __always_inline void report(struct __sk_buff *skb, __u8 point)
{
	__u32 captured = skb->len < CAPTURE_BYTES ? skb->len : CAPTURE_BYTES;
	struct trace trace = {
		.type = NOTIFY_TRACE,
		.point = point,
		.hash = bpf_get_hash_recalc(skb),
		.length = skb->len,
		.captured = captured,
		.mark = skb->mark,
		.ifindex = skb->ifindex,
	};

	// The upper half of the flags says how much of the packet goes along.
	bpf_perf_event_output(skb, &events, (__u64)captured << 32 | BPF_F_CURRENT_CPU, &trace, sizeof(trace));
}

SEC("tc")
int from_network(struct __sk_buff *skb)
{
	__u8 point = OBSERVED_FROM_NETWORK;

	skb->cb[0] = 0;
	if ((skb->mark & MARK_MAGIC_MASK) == MARK_DECRYPTED) {
		skb->cb[0] = MARK_HOST;
		point = OBSERVED_DECRYPTED;
	} else {
		skb->mark &= ~MARK_MAGIC_MASK;
	}
	report(skb, point);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "Dual MIT/GPL";

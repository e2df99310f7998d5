// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Receives what came back: counts it, and keeps how long some of it took since it should have been sent. */
#include "packet.h"

#define SAMPLES 1048576

struct counters {
	__u64 received;
	__u64 bytes;
	__u64 others; /* frames that are not the generator's */
	__u64 sampled;
	__u64 sample_mask; /* one frame in this many, plus one, is sampled */
	__u64 first; /* sequence number of the first frame that is sampled */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SAMPLES);
	__type(key, __u32);
	__type(value, __u32);
} samples SEC(".maps");

static __always_inline int is_stamped(struct frame *frame)
{
	return frame->ethernet.h_proto == bpf_htons(ETH_P_IP) && frame->ip.protocol == IPPROTO_UDP;
}

static __always_inline void sample(struct counters *counted, struct frame *frame)
{
	__u32 key = counted->sampled & (SAMPLES - 1), *place;
	__u64 took;

	if (frame->stamp.sequence < counted->first)
		return;
	place = bpf_map_lookup_elem(&samples, &key);
	if (!place)
		return;
	took = bpf_ktime_get_ns() - frame->stamp.intended_ns;
	*place = took > 0xffffffff ? 0xffffffff : took;
	counted->sampled++;
}

/* Takes every frame away. */
SEC("xdp")
int sink(struct xdp_md *ctx)
{
	struct frame *frame = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct counters *counted = bpf_map_lookup_elem(&counters, &zero);

	if (!counted)
		return XDP_ABORTED;
	if ((void *)(frame + 1) > end || !is_stamped(frame)) {
		counted->others++;
		return XDP_DROP;
	}
	counted->bytes += end - (void *)frame;
	if ((counted->received & counted->sample_mask) == 0)
		sample(counted, frame);
	counted->received++;
	return XDP_DROP;
}

/* Lets every frame pass. veth wants an XDP program on the device that XDP_TX of the other end sends to. */
SEC("xdp")
int accept(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

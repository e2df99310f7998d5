// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The smallest programs for every hook: pass everything, drop everything, and drop what the generator
 * sends after looking for it. */
#include "packet.h"
#include <linux/pkt_cls.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 128);
	__type(key, __u32);
	__type(value, __u64);
} sockets SEC(".maps");

static __always_inline void count(void)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&seen, &zero);

	if (n)
		*n += 1;
}

SEC("xdp")
int pass_xdp(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("tc")
int pass_tc(struct __sk_buff *skb)
{
	return TC_ACT_OK;
}

SEC("sk_skb/stream_verdict")
int pass_sk_skb(struct __sk_buff *skb)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&seen, &zero);

	if (n)
		__sync_fetch_and_add(n, skb->len);
	return SK_PASS;
}

SEC("socket")
int pass_filter(struct __sk_buff *skb)
{
	return 0xffff;
}

SEC("xdp")
int drop_xdp(struct xdp_md *ctx)
{
	if (!lab_frame((void *)(long)ctx->data, (void *)(long)ctx->data_end))
		return XDP_PASS;
	count();
	return XDP_DROP;
}

SEC("tc")
int drop_tc(struct __sk_buff *skb)
{
	if (!lab_frame((void *)(long)skb->data, (void *)(long)skb->data_end))
		return TC_ACT_OK;
	count();
	return TC_ACT_SHOT;
}

SEC("sk_skb/stream_verdict")
int drop_sk_skb(struct __sk_buff *skb)
{
	count();
	return SK_DROP;
}

SEC("socket")
int drop_filter(struct __sk_buff *skb)
{
	count();
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

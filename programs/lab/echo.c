// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Echo at each hook: the payload goes back to where it came from. */
#include "packet.h"
#include <linux/pkt_cls.h>

struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} applications SEC(".maps");

/* As a host would answer: a fresh time to live, so the header's checksum is made anew. */
static __always_inline void answer(struct frame *frame)
{
	__u16 *half = (void *)&frame->ip;
	__u32 sum = 0;

	turn_around(frame);
	frame->ip.ttl = 64;
	frame->ip.check = 0;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += half[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	frame->ip.check = ~sum;
}

SEC("xdp")
int echo_xdp(struct xdp_md *ctx)
{
	struct frame *frame = lab_frame((void *)(long)ctx->data, (void *)(long)ctx->data_end);

	if (!frame)
		return XDP_PASS;
	answer(frame);
	return XDP_TX;
}

/* To an application that has an AF_XDP socket, which answers. */
SEC("xdp")
int echo_af_xdp(struct xdp_md *ctx)
{
	if (!lab_frame((void *)(long)ctx->data, (void *)(long)ctx->data_end))
		return XDP_PASS;
	return bpf_redirect_map(&applications, 0, XDP_PASS);
}

SEC("tc")
int echo_tc(struct __sk_buff *skb)
{
	struct frame *frame = lab_frame((void *)(long)skb->data, (void *)(long)skb->data_end);

	if (!frame)
		return TC_ACT_OK;
	answer(frame);
	return bpf_redirect(skb->ifindex, 0);
}

SEC("sk_skb/stream_verdict")
int echo_sk_skb(struct __sk_buff *skb)
{
	return bpf_sk_redirect_map(skb, &sockets, 0, 0);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

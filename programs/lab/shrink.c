// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Cuts the end off packets before they go to the application, and makes their headers right again. */
#include "packet.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} keep SEC(".maps"); /* bytes of the payload */

SEC("xdp")
int shrink(struct xdp_md *ctx)
{
	struct frame *frame = lab_frame((void *)(long)ctx->data, (void *)(long)ctx->data_end);
	__u32 zero = 0, sum = 0;
	__u64 *bytes = bpf_map_lookup_elem(&keep, &zero);
	__u16 *half, length;
	int have;

	if (!frame || !bytes)
		return XDP_PASS;
	have = bpf_ntohs(frame->udp.len) - sizeof(struct udphdr);
	length = *bytes;
	if (length > have || length < sizeof(struct stamp))
		return XDP_PASS;
	if (bpf_xdp_adjust_tail(ctx, length - have))
		return XDP_ABORTED;
	frame = (void *)(long)ctx->data;
	if ((void *)(frame + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	frame->udp.len = bpf_htons(length + sizeof(struct udphdr));
	frame->udp.check = 0;
	frame->ip.tot_len = bpf_htons(length + sizeof(struct udphdr) + sizeof(struct iphdr));
	frame->ip.check = 0;
	half = (void *)&frame->ip;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += half[i];
	sum = (sum & 0xffff) + (sum >> 16);
	frame->ip.check = ~((sum & 0xffff) + (sum >> 16));
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Asks a server that speaks memcached's protocol over UDP, at chosen times. Run on live frames that are longer
 * than any request: the kernel takes note of a frame's length only when its program changes it, and who answers
 * in the same page has left another. */
#include "pace.h"

#define MOST_REQUEST 80
#define REQUESTS 4096

struct room {
	__u8 header[sizeof(struct frame) - sizeof(struct stamp)];
	__u8 text[MOST_REQUEST];
	__u8 beyond[1];
} __attribute__((packed));

struct text {
	__u8 bytes[MOST_REQUEST];
};

/* What follows the UDP header; all of one length, which the header says. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, REQUESTS);
	__type(key, __u32);
	__type(value, struct text);
} requests SEC(".maps");

SEC("xdp")
int ask(struct xdp_md *ctx)
{
	struct room *room = (void *)(long)ctx->data;
	struct frame *frame = (void *)room;
	__u32 zero = 0, key = 0, *number;
	struct config *settings = bpf_map_lookup_elem(&config, &zero);
	struct state *progress = bpf_map_lookup_elem(&state, &zero);
	struct text *text;
	__u64 intended;

	if (!settings || !progress || (void *)(room + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	if (!is_due(settings, progress, &intended))
		return XDP_DROP;
	number = next_flow(settings, progress);
	if (number)
		key = *number;
	text = bpf_map_lookup_elem(&requests, &key);
	if (!text)
		return XDP_ABORTED;
	__builtin_memcpy(room->header, settings->header, sizeof(settings->header));
	__builtin_memcpy(room->text, text->bytes, MOST_REQUEST);
	if (bpf_xdp_adjust_tail(ctx, (int)bpf_ntohs(frame->ip.tot_len) + ETH_HLEN - (int)sizeof(*room)))
		return XDP_ABORTED;
	frame_sent(settings, progress);
	return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

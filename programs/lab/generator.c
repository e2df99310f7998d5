// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Sends frames at chosen times, which they carry. Run on live frames. */
#include "pace.h"

#define WINDOWS 1024
#define WINDOW_NS 1000000

struct window {
	__u32 offered; /* frames handed to the device */
	__u32 lost; /* of these, frames that it had no room for */
};

/* By time since the first frame. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WINDOWS);
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps");

/* The low half of the number makes the source port, the rest is added to the source address. */
static __always_inline void set_flow(struct frame *frame, __u32 flow)
{
	__u32 address = bpf_ntohl(frame->ip.saddr);
	__u32 sum = (~bpf_ntohs(frame->ip.check) & 0xffff) + (flow >> 16);

	frame->udp.source = bpf_htons(flow & 0xffff);
	frame->ip.saddr = bpf_htonl(address + (flow >> 16));
	sum = (sum & 0xffff) + (sum >> 16);
	frame->ip.check = bpf_htons(~sum & 0xffff);
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	struct frame *frame = (void *)(long)ctx->data;
	__u32 zero = 0, *flow;
	struct config *settings = bpf_map_lookup_elem(&config, &zero);
	struct state *progress = bpf_map_lookup_elem(&state, &zero);
	__u64 intended;

	if (!settings || !progress || (void *)(frame + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	if (!is_due(settings, progress, &intended))
		return XDP_DROP;
	/* The page was used before, and whoever received it may have written to it. */
	__builtin_memcpy(frame, settings->header, sizeof(settings->header));
	flow = next_flow(settings, progress);
	if (flow)
		set_flow(frame, *flow);
	frame->stamp.intended_ns = intended;
	frame->stamp.sequence = progress->sent;
	frame->stamp.work = settings->work;
	frame_sent(settings, progress);
	return XDP_TX;
}

/* Called each time that frames were handed to a device: from which one, to which one, how many it took, how many
 * it did not, and why. */
SEC("tp_btf/xdp_devmap_xmit")
int watch(__u64 *arguments)
{
	__u32 zero = 0, taken = arguments[2], lost = arguments[3], number;
	struct config *settings = bpf_map_lookup_elem(&config, &zero);
	struct state *progress = bpf_map_lookup_elem(&state, &zero);
	struct window *window;

	if (!settings || !progress || !progress->last_ns || bpf_get_smp_processor_id() != settings->cpu)
		return 0;
	number = (progress->last_ns - progress->start_ns) / WINDOW_NS;
	window = bpf_map_lookup_elem(&windows, &number);
	if (window) {
		window->offered += taken + lost;
		window->lost += lost;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

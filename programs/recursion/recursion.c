// SPDX-License-Identifier: Apache-2.0 OR MIT
/* What C for the verifier has in place of recursion: chains of tail calls, whose state is in static variables.
 * The packet says how deep and what must come out. */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FRAME 8
/* The kernel allows no more tail calls in a row. */
#define MOST 33

struct wanted {
	__be32 depth;
	__be32 value;
};

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} STEPS SEC(".maps");

static __u32 depth, at, value, expected;
/* A place in the map that is known only when the program runs. */
static volatile __u32 place = 1;

static __always_inline int begin(struct xdp_md *ctx)
{
	struct wanted *wanted = (void *)(long)ctx->data;

	if ((void *)(wanted + 1) > (void *)(long)ctx->data_end)
		return 0;
	depth = bpf_ntohl(wanted->depth);
	expected = bpf_ntohl(wanted->value);
	at = 0;
	value = 1;
	return 1;
}

static __always_inline int is_over(void)
{
	return at >= depth;
}

static __always_inline void go_on(void)
{
	at++;
	value = (value << 1 | value >> 31) ^ at;
}

static __always_inline int verdict(void)
{
	return value == expected ? XDP_PASS : XDP_DROP;
}

/* The kernel's compiler makes a jump of a tail call to a place that is a constant. */
SEC("xdp")
int step(struct xdp_md *ctx)
{
	if (is_over())
		return verdict();
	go_on();
	bpf_tail_call(ctx, &STEPS, 0);
	return XDP_ABORTED;
}

SEC("xdp")
int step_anywhere(struct xdp_md *ctx)
{
	if (is_over())
		return verdict();
	go_on();
	bpf_tail_call(ctx, &STEPS, place);
	return XDP_ABORTED;
}

SEC("xdp")
int tail_calls(struct xdp_md *ctx)
{
	if (!begin(ctx))
		return XDP_DROP;
	bpf_tail_call(ctx, &STEPS, 0);
	return XDP_ABORTED;
}

SEC("xdp")
int tail_calls_anywhere(struct xdp_md *ctx)
{
	if (!begin(ctx))
		return XDP_DROP;
	bpf_tail_call(ctx, &STEPS, place);
	return XDP_ABORTED;
}

static __noinline __u32 framed(__u32 value, __u32 n)
{
	__u32 frame[FRAME], i;

	for (i = 0; i < FRAME; i++)
		frame[i] = (value << 1 | value >> 31) ^ i ^ (n % FRAME);
	return frame[n % FRAME] ^ n;
}

SEC("xdp")
int calls(struct xdp_md *ctx)
{
	struct wanted *wanted = (void *)(long)ctx->data;
	__u32 value = 1, n;

	if ((void *)(wanted + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	for (n = 1; n <= MOST; n++) {
		if (n > bpf_ntohl(wanted->depth))
			break;
		value = framed(value, n);
	}
	return value == bpf_ntohl(wanted->value) ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

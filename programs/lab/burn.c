// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Works on packets of the generator for as long as they say, and drops them; lets others pass. What one
 * application's program does to another's packets in the same queue. */
#include "packet.h"

#define MOST_WORK 4096 /* the verifier follows every turn */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} result SEC(".maps");

SEC("xdp")
int burn(struct xdp_md *ctx)
{
	struct frame *frame = lab_frame((void *)(long)ctx->data, (void *)(long)ctx->data_end);
	__u32 zero = 0, work;
	__u64 product, *kept;

	if (!frame || !frame->stamp.work)
		return XDP_PASS;
	work = frame->stamp.work;
	product = frame->stamp.sequence;
	for (__u32 i = 0; i < MOST_WORK && i < work; i++)
		product = product * 6364136223846793005ull + 1442695040888963407ull;
	kept = bpf_map_lookup_elem(&result, &zero);
	if (kept)
		*kept = product;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Drops packets after looking their flow up in a hash table, once or more often: differences of a known kind, by
 * which a measurement shows what it can tell apart. */
#include "packet.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u64);
} table SEC(".maps");

static __always_inline void look_up(struct frame *frame, __u32 salt)
{
	__u64 key = ((__u64)frame->ip.saddr << 32 | frame->udp.source) + salt;
	__u64 *count = bpf_map_lookup_elem(&table, &key);

	if (count)
		*count += 1;
}

/* A program that looks so often. */
#define LOOKUPS(name, times)                                                                           \
	SEC("xdp")                                                                                         \
	int name(struct xdp_md *ctx)                                                                       \
	{                                                                                                  \
		struct frame *frame = lab_frame((void *)(long)ctx->data, (void *)(long)ctx->data_end);         \
                                                                                                       \
		if (!frame)                                                                                    \
			return XDP_PASS;                                                                           \
		_Pragma("unroll") for (int i = 0; i < times; i++) look_up(frame, i);                           \
		return XDP_DROP;                                                                               \
	}

LOOKUPS(one, 1)
LOOKUPS(nine, 9)
LOOKUPS(seventeen, 17)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// Maps as structures, and no types.
#include "bpf.h"

struct bpf_map_def { u32 type, key_size, value_size, max_entries, map_flags; };
struct bpf_map_def SEC("maps") first = { HASH, 4, 8, 100, 0 };
struct bpf_map_def SEC("maps") second = { ARRAY, 4, 4, 10, 1 };

SEC("xdp1") int walk(struct xdp_md *ctx)
{
	u32 key = ctx->data;
	u32 *value = map_lookup(&second, &key);
	u64 sum = 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < 8; i++) {
		u64 *found = map_lookup(&first, &i);
		if (found)
			sum += *found;
	}
	if (value)
		*value = sum;
	return sum & 1;
}

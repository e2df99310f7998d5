// Counts packets in an array; EXTRA lookups in a hash table do nothing but take time.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#ifndef EXTRA
#define EXTRA 0
#endif

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} packets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u64);
} flows SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 zero = 0;
	__u64 found = 0;
#pragma unroll
	for (__u64 i = 0; i < EXTRA; i++) {
		__u64 key = i;
		found += bpf_map_lookup_elem(&flows, &key) != 0;
	}
	__u64 *value = bpf_map_lookup_elem(&packets, &zero);
	if (value)
		*value += 1 + found;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";

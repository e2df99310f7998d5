// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The programs of this folder in C. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define ENTRIES 5000
#define KEY 2500

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ENTRIES);
	__type(key, __u32);
	__type(value, __u64);
} ARRAY SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u64);
} HASH SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u64);
} LRU SEC(".maps");

struct locked {
	struct bpf_spin_lock lock;
	__u64 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct locked);
} LOCKED SEC(".maps");

static __always_inline int verdict(const __u64 *value)
{
	return value && *value == KEY + 1 ? XDP_PASS : XDP_DROP;
}

static __u32 filled;

/* One entry in each run: the verifier takes no loop of so many. */
SEC("xdp")
int fill(struct xdp_md *ctx)
{
	__u32 key = __sync_fetch_and_add(&filled, 1);
	__u64 value = (__u64)key + 1;

	if (key >= ENTRIES)
		return XDP_PASS;
	if (bpf_map_update_elem(&ARRAY, &key, &value, BPF_ANY) ||
	    bpf_map_update_elem(&HASH, &key, &value, BPF_ANY) ||
	    bpf_map_update_elem(&LRU, &key, &value, BPF_ANY))
		return XDP_DROP;
	return XDP_PASS;
}

SEC("xdp")
int nothing(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("xdp")
int array(struct xdp_md *ctx)
{
	__u32 key = KEY;

	return verdict(bpf_map_lookup_elem(&ARRAY, &key));
}

SEC("xdp")
int hash(struct xdp_md *ctx)
{
	__u32 key = KEY;

	return verdict(bpf_map_lookup_elem(&HASH, &key));
}

SEC("xdp")
int lru(struct xdp_md *ctx)
{
	__u32 key = KEY;

	return verdict(bpf_map_lookup_elem(&LRU, &key));
}

SEC("xdp")
int lock(struct xdp_md *ctx)
{
	__u32 key = 0;
	struct locked *locked = bpf_map_lookup_elem(&LOCKED, &key);

	if (!locked)
		return XDP_DROP;
	bpf_spin_lock(&locked->lock);
	locked->count++;
	bpf_spin_unlock(&locked->lock);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// SPDX-License-Identifier: Apache-2.0 OR MIT
/* One operation, many times: the slope of time over how often is its price. Every program reads from
 * `work` how often, and leaves there how often it did it and something that depends on all of it. */
#include "packet.h"

#define ENTRIES 1024
#define BYTES 4096
#define MOST 4096

struct work {
	__u32 times;
	__u32 done;
	__u64 result;
	__u64 under_way; /* of a chain of calls */
};

struct bytes {
	__u64 words[BYTES / 8];
};

struct locked {
	struct bpf_spin_lock lock;
	__u32 count;
};

#define MAP(name, kind, count, content)                                                                \
	struct {                                                                                           \
		__uint(type, kind);                                                                            \
		__uint(max_entries, count);                                                                    \
		__type(key, __u32);                                                                            \
		__type(value, content);                                                                        \
	} name SEC(".maps")

MAP(work, BPF_MAP_TYPE_ARRAY, 1, struct work);
MAP(array, BPF_MAP_TYPE_ARRAY, ENTRIES, __u64);
MAP(array_again, BPF_MAP_TYPE_ARRAY, ENTRIES, __u64);
MAP(percpu_array, BPF_MAP_TYPE_PERCPU_ARRAY, ENTRIES, __u64);
MAP(hash, BPF_MAP_TYPE_HASH, ENTRIES, __u64);
MAP(percpu_hash, BPF_MAP_TYPE_PERCPU_HASH, ENTRIES, __u64);
MAP(lru_hash, BPF_MAP_TYPE_LRU_HASH, ENTRIES, __u64);
MAP(source, BPF_MAP_TYPE_ARRAY, 1, struct bytes);
MAP(target, BPF_MAP_TYPE_ARRAY, 1, struct bytes);
MAP(locked, BPF_MAP_TYPE_ARRAY, 1, struct locked);
MAP(chain, BPF_MAP_TYPE_PROG_ARRAY, 2, __u32);

static __always_inline struct work *begin(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&work, &zero);
}

/* BODY is done `times` times, with `i` counting and `result` to be changed. */
#define PROBE(name, BODY)                                                                              \
	SEC("xdp")                                                                                         \
	int name(struct xdp_md *ctx)                                                                       \
	{                                                                                                  \
		struct work *job = begin();                                                                    \
		__u64 result = 0;                                                                              \
		__u32 i, times;                                                                                \
                                                                                                       \
		if (!job)                                                                                      \
			return XDP_ABORTED;                                                                        \
		times = job->times;                                                                            \
		for (i = 0; i < MOST; i++) {                                                                   \
			if (i >= times)                                                                            \
				break;                                                                                 \
			BODY;                                                                                      \
			asm volatile("" : "+r"(result));                                                           \
		}                                                                                              \
		job->done = i;                                                                                 \
		job->result = result;                                                                          \
		return XDP_PASS;                                                                               \
	}

#define LOOK_UP(map)                                                                                   \
	__u32 key = i & (ENTRIES - 1);                                                                     \
	__u64 *value = bpf_map_lookup_elem(&map, &key);                                                    \
	if (value)                                                                                         \
		result += *value

PROBE(empty, result += i)
PROBE(lookup_array, LOOK_UP(array))
PROBE(lookup_percpu_array, LOOK_UP(percpu_array))
PROBE(lookup_hash, LOOK_UP(hash))
PROBE(lookup_percpu_hash, LOOK_UP(percpu_hash))
PROBE(lookup_lru_hash, LOOK_UP(lru_hash))

/* Which of two maps is only known when it runs, so the verifier cannot put the lookup in line. */
PROBE(lookup_array_by_call, {
	__u32 key = i & (ENTRIES - 1);
	void *map = (result & 1) ? (void *)&array_again : (void *)&array;
	__u64 *value = bpf_map_lookup_elem(map, &key);
	if (value)
		result += *value;
})

PROBE(update_hash, {
	__u32 key = i & (ENTRIES - 1);
	__u64 value = i;
	result += bpf_map_update_elem(&hash, &key, &value, BPF_ANY);
})

PROBE(ktime, result += bpf_ktime_get_ns())
PROBE(ktime_coarse, result += bpf_ktime_get_coarse_ns())
PROBE(cpu_number, result += bpf_get_smp_processor_id())
PROBE(numa_node, result += bpf_get_numa_node_id())
PROBE(random, result += bpf_get_prandom_u32())
PROBE(redirect, result += bpf_redirect(1, 0))

PROBE(atomic_add, {
	__u32 key = 0;
	__u64 *value = bpf_map_lookup_elem(&array, &key);
	if (value)
		__sync_fetch_and_add(value, 1);
})

PROBE(plain_add, {
	__u32 key = 0;
	__u64 *value = bpf_map_lookup_elem(&array, &key);
	if (value)
		*(volatile __u64 *)value += 1;
})

PROBE(spin_lock, {
	__u32 key = 0;
	struct locked *value = bpf_map_lookup_elem(&locked, &key);
	if (value) {
		bpf_spin_lock(&value->lock);
		value->count++;
		bpf_spin_unlock(&value->lock);
	}
})

static __noinline int static_function(__u64 n)
{
	asm volatile("" : "+r"(n));
	return n;
}

__noinline int global_function(__u64 n)
{
	asm volatile("" : "+r"(n));
	return n;
}

PROBE(call_static, result += static_function(i))
PROBE(call_global, result += global_function(i))

/* The program calls itself by a tail call, at most 32 times a run; the rest of the loop is outside. */
SEC("xdp")
int tail_call(struct xdp_md *ctx)
{
	struct work *job = begin();

	if (!job)
		return XDP_ABORTED;
	if (job->under_way < job->times) {
		job->under_way++;
		bpf_tail_call(ctx, &chain, 0);
	}
	job->done = job->under_way;
	job->under_way = 0;
	return XDP_PASS;
}

/* The same without a constant index, which keeps the kernel from making it a jump. */
SEC("xdp")
int tail_call_by_number(struct xdp_md *ctx)
{
	struct work *job = begin();

	if (!job)
		return XDP_ABORTED;
	if (job->under_way < job->times) {
		job->under_way++;
		bpf_tail_call(ctx, &chain, (job->times >> 16) + 1);
	}
	job->done = job->under_way;
	job->under_way = 0;
	return XDP_PASS;
}

static long add(__u32 i, __u64 *result)
{
	*result += i;
	return 0;
}

SEC("xdp")
int loop_by_helper(struct xdp_md *ctx)
{
	struct work *job = begin();
	__u64 result = 0;

	if (!job)
		return XDP_ABORTED;
	job->done = bpf_loop(job->times, add, &result, 0);
	job->result = result;
	return XDP_PASS;
}

/* Copies of 1024 bytes, so many at most. */
#define COPY(name, most, body)                                                                         \
	SEC("xdp")                                                                                         \
	int name(struct xdp_md *ctx)                                                                       \
	{                                                                                                  \
		struct work *job = begin();                                                                    \
		__u32 zero = 0, i, times;                                                                      \
		struct bytes *from = bpf_map_lookup_elem(&source, &zero);                                      \
		struct bytes *to = bpf_map_lookup_elem(&target, &zero);                                        \
                                                                                                       \
		if (!job || !from || !to)                                                                      \
			return XDP_ABORTED;                                                                        \
		times = job->times;                                                                            \
		for (i = 0; i < most; i++) {                                                                   \
			if (i >= times)                                                                            \
				break;                                                                                 \
			body;                                                                                      \
		}                                                                                              \
		job->done = i;                                                                                 \
		job->result = to->words[127];                                                                  \
		return XDP_PASS;                                                                               \
	}

/* In functions of their own, which the verifier looks into once for each call. */
static __noinline int copy_by_bytes(struct bytes *to, struct bytes *from)
{
	if (!to || !from)
		return 0;
	for (int i = 0; i < 1024; i++) {
		((volatile __u8 *)to->words)[i] = ((__u8 *)from->words)[i];
	}
	return 0;
}

static __noinline int copy_by_words(struct bytes *to, struct bytes *from)
{
	if (!to || !from)
		return 0;
	for (int i = 0; i < 128; i++)
		((volatile __u64 *)to->words)[i] = from->words[i];
	return 0;
}

static __noinline int copy_unrolled(struct bytes *to, struct bytes *from)
{
	if (!to || !from)
		return 0;
#pragma unroll
	for (int i = 0; i < 128; i++)
		((volatile __u64 *)to->words)[i] = from->words[i];
	return 0;
}

COPY(copy_words_unrolled, 1024, copy_unrolled(to, from))
COPY(copy_probe_read, 1024, bpf_probe_read_kernel(to, 1024, from))
/* Loops inside loops make the verifier walk every one of their turns: fewer of them. */
COPY(copy_words, 32, copy_by_words(to, from))
COPY(copy_bytes, 32, copy_by_bytes(to, from))

char LICENSE[] SEC("license") = "Dual MIT/GPL";

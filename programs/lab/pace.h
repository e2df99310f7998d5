// SPDX-License-Identifier: Apache-2.0 OR MIT
/* When frames are sent, for programs that make them: each run is one frame, which is sent when its time has
 * come and dropped, to be offered again, when not. Frames are meant to go out at times that do not depend on
 * what happened to earlier ones (open loop). When the generator itself was held up, what it missed is left
 * out and counted: a burst would only measure the generator. */
#pragma once
#include "packet.h"

#define GAPS 65536
#define FLOWS 1048576
#define LATENESS_BUCKETS 64

struct config {
	__u64 duration_ns;
	__u64 paced_ns; /* after that, as fast as possible */
	__u64 lead_ns; /* from the first run to the first frame: the kernel's pages get warm */
	__u64 gap; /* mean time between frames, in ns << 16; 0 is as fast as possible */
	__u32 flow_mask; /* how many entries of `flows` are in use, less one */
	__u32 random_gaps;
	__u32 work;
	__u32 most_late_ns; /* frames later than that are left out, instead of sent in a burst */
	__u32 cpu; /* that the generator runs on */
	__u8 header[sizeof(struct frame) - sizeof(struct stamp)];
};

struct state {
	__u64 start_ns; /* time of the first frame */
	__u64 next; /* time of the next frame after that, in ns << 16 */
	__u64 sent;
	__u64 early;
	__u64 last_ns;
	__u64 missed; /* frames left out */
	__u64 now_ns; /* the clock, when it was last read */
	__u64 unread; /* runs since then */
	__u64 lateness[LATENESS_BUCKETS]; /* frames by the logarithm of ns they were late */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} state SEC(".maps");

/* Times between frames as a share of the mean, << 16. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GAPS);
	__type(key, __u32);
	__type(value, __u32);
} gaps SEC(".maps");

/* Which flow the n-th frame belongs to. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOWS);
	__type(key, __u32);
	__type(value, __u32);
} flows SEC(".maps");

static __always_inline __u32 logarithm(__u64 n)
{
	__u32 result = 0;

	if (n >> 32) { result += 32; n >>= 32; }
	if (n >> 16) { result += 16; n >>= 16; }
	if (n >> 8) { result += 8; n >>= 8; }
	if (n >> 4) { result += 4; n >>= 4; }
	if (n >> 2) { result += 2; n >>= 2; }
	return result + (n >> 1);
}

static __always_inline __u64 gap_after(const struct config *config, __u64 number)
{
	__u32 key = number & (GAPS - 1);
	__u32 *share;

	if (!config->random_gaps)
		return config->gap;
	share = bpf_map_lookup_elem(&gaps, &key);
	return share ? (config->gap >> 16) * *share + (((config->gap & 0xffff) * *share) >> 16) : config->gap;
}

/* What to wait for in the program: offering a frame again costs more than that. */
#define SHORT_WAIT_NS 300
#define MOST_READINGS 16

/* A generator that is behind need not read the clock for each frame, which takes a third as long as the frame. */
#define MOST_UNREAD 16

static __always_inline __u64 clock_now(struct state *progress)
{
	int is_behind = progress->now_ns >= progress->start_ns + (progress->next >> 16);

	if (!progress->start_ns || !is_behind || progress->unread++ >= MOST_UNREAD) {
		progress->now_ns = bpf_ktime_get_ns();
		progress->unread = 0;
	}
	return progress->now_ns;
}

/* Whether a frame is to be sent now, and when it should have been. `progress->sent` is its number until
 * `frame_sent`. */
static __always_inline int is_due(const struct config *settings, struct state *progress, __u64 *intended)
{
	__u64 now = clock_now(progress);
	__u64 late;
	__u32 bucket;

	if (!progress->start_ns)
		progress->start_ns = now + settings->lead_ns;
	if (now < progress->start_ns || now >= progress->start_ns + settings->duration_ns)
		return 0;
	*intended = now;
	if (settings->gap && now < progress->start_ns + settings->paced_ns)
		*intended = progress->start_ns + (progress->next >> 16);
	for (int i = 0; i < MOST_READINGS && now < *intended && now + SHORT_WAIT_NS >= *intended; i++)
		progress->now_ns = now = bpf_ktime_get_ns();
	if (now < *intended) {
		progress->early++;
		return 0;
	}
	late = now - *intended;
	if (late > settings->most_late_ns) {
		progress->missed += (late << 16) / settings->gap;
		progress->next += late << 16;
		late = 0;
	}
	bucket = logarithm(late);
	if (bucket < LATENESS_BUCKETS)
		progress->lateness[bucket]++;
	progress->last_ns = now;
	return 1;
}

static __always_inline void frame_sent(const struct config *settings, struct state *progress)
{
	progress->next += gap_after(settings, progress->sent);
	progress->sent++;
}

/* The flow of the next frame. */
static __always_inline __u32 *next_flow(const struct config *settings, const struct state *progress)
{
	__u32 key = progress->sent & settings->flow_mask;

	return bpf_map_lookup_elem(&flows, &key);
}

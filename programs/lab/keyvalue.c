// SPDX-License-Identifier: Apache-2.0 OR MIT
/* A fast path for memcached over UDP: GETs of one key are answered at XDP from a cache of whole replies,
 * which fills itself from the replies that memcached sends (the idea of BMC, NSDI 2021). A SET over UDP
 * or TCP empties the place of its key. Replies are kept and given back byte for byte: their length is
 * what the datagram says, so values may hold any bytes, line ends too. A reply that was on its way while
 * its key was written is not kept. (As with BMC, a GET may overtake a SET between here and memcached when
 * they come by different sockets.)
 *
 * `answer` is the whole fast path in one program; `answer_by_calls` hands over to a second program by a
 * tail call; `only_parse` does the work up to the lookup and never answers. */
#include "memcached.h"
#include "packet.h"
#include <linux/pkt_cls.h>
#include <linux/tcp.h>

#define MOST_KEY 64 /* bytes of a key; longer ones go to memcached */
#define MOST_REPLY 1400
#define PLACES 4096

struct headers {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct udphdr udp;
	struct memcached memcached;
	char command[4];
} __attribute__((packed));

struct place {
	struct bpf_spin_lock lock;
	__u32 hash;
	__u32 length; /* of the reply; 0 is an empty place */
	__u32 version; /* grows with every write of a key that belongs here */
	char key[MOST_KEY];
	char reply[MOST_REPLY];
};

/* What a program works on: too large for the stack. */
struct work {
	__u32 hash;
	__u32 length;
	__u32 version;
	__u32 pad;
	char key[MOST_KEY];
	char reply[MOST_REPLY];
};

/* What was looked for on the way in, while its reply is awaited: by request number and client port. */
struct awaited {
	__u32 hash;
	__u32 version;
	char key[MOST_KEY];
};

struct counters {
	__u64 hits;
	__u64 misses;
	__u64 updates;
	__u64 invalidations;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, struct place);
} cache SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct awaited);
} awaited SEC(".maps");

/* Programs on one CPU do not interrupt one another. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} programs SEC(".maps");

static __always_inline struct counters *count(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

/* Reads a key up to a blank or line end, into `key`, which is all zeros before; FNV-1a. Returns its
 * length, 0 when there is none or it is too long. */
static __always_inline __u32 read_key(const char *from, const void *end, char *key, __u32 *hash)
{
	__u32 sum = 2166136261u, length;

	for (length = 0; length < MOST_KEY; length++) {
		char byte;

		if ((const void *)(from + length + 1) > end)
			return 0;
		byte = from[length];
		if (byte == ' ' || byte == '\r')
			break;
		key[length] = byte;
		sum = (sum ^ (__u8)byte) * 16777619u;
	}
	*hash = sum;
	return length < MOST_KEY ? length : 0;
}

static __always_inline int is_get(struct headers *headers, const void *end)
{
	if ((void *)(headers + 1) > end)
		return 0;
	if (headers->ethernet.h_proto != bpf_htons(ETH_P_IP) || headers->ip.ihl != 5)
		return 0;
	if (headers->ip.protocol != IPPROTO_UDP || headers->udp.dest != bpf_htons(MEMCACHED_PORT))
		return 0;
	return headers->command[0] == 'g' && headers->command[1] == 'e' && headers->command[2] == 't' &&
	       headers->command[3] == ' ';
}

static __always_inline int same_key(const char *one, const char *other)
{
	const __u64 *a = (const void *)one, *b = (const void *)other;
	__u64 difference = 0;

#pragma unroll
	for (int i = 0; i < MOST_KEY / 8; i++)
		difference |= a[i] ^ b[i];
	return !difference;
}

/* Whole words, as far as needed; the barrier keeps the compiler from making it a call of memcpy. */
static __always_inline void copy(char *to, const char *from, __u32 length)
{
	__u64 *target = (void *)to;
	const __u64 *source = (const void *)from;

	for (__u32 i = 0; i < MOST_REPLY / 8; i++) {
		if (i * 8 >= length)
			break;
		target[i] = source[i];
		asm volatile("" ::: "memory");
	}
}

/* The reply to this key, copied out of the cache while nobody changes it. */
static __always_inline int find(struct work *wanted)
{
	__u32 key = wanted->hash % PLACES;
	struct place *place = bpf_map_lookup_elem(&cache, &key);
	int found = 0;

	if (!place)
		return 0;
	bpf_spin_lock(&place->lock);
	wanted->version = place->version;
	if (place->length && place->hash == wanted->hash && same_key(place->key, wanted->key)) {
		wanted->length = place->length;
		copy(wanted->reply, place->reply, place->length);
		found = 1;
	}
	bpf_spin_unlock(&place->lock);
	return found;
}

static __always_inline __u64 conversation(__be16 port, __be16 request)
{
	return (__u64)port << 16 | request;
}

/* Writes the reply over the request, and sends it back. */
static __always_inline int reply(struct xdp_md *ctx, struct work *found)
{
	struct headers *headers;
	__u32 length = found->length;
	int grow;
	__u16 *half;
	__u32 sum = 0;
	__be32 address;
	__be16 port;

	if (length == 0 || length > MOST_REPLY)
		return XDP_PASS;
	grow = (int)(sizeof(struct headers) - sizeof(headers->command) + length) - (int)bpf_xdp_get_buff_len(ctx);
	if (bpf_xdp_adjust_tail(ctx, grow))
		return XDP_PASS;
	headers = (void *)(long)ctx->data;
	if ((void *)(headers + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	swap_ethernet(&headers->ethernet);
	address = headers->ip.saddr;
	headers->ip.saddr = headers->ip.daddr;
	headers->ip.daddr = address;
	port = headers->udp.source;
	headers->udp.source = headers->udp.dest;
	headers->udp.dest = port;
	headers->udp.check = 0;
	headers->udp.len = bpf_htons(sizeof(struct udphdr) + sizeof(struct memcached) + length);
	headers->ip.tot_len = bpf_htons(sizeof(struct iphdr) + sizeof(struct udphdr) + sizeof(struct memcached) + length);
	headers->ip.ttl = 64;
	headers->ip.check = 0;
	half = (void *)&headers->ip;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += half[i];
	sum = (sum & 0xffff) + (sum >> 16);
	headers->ip.check = ~((sum & 0xffff) + (sum >> 16));
	headers->memcached.sequence = 0;
	headers->memcached.datagrams = bpf_htons(1);
	if (bpf_xdp_store_bytes(ctx, __builtin_offsetof(struct headers, command), found->reply, length))
		return XDP_ABORTED;
	return XDP_TX;
}

static __always_inline struct work *parse(struct xdp_md *ctx)
{
	struct headers *headers = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct work *wanted = bpf_map_lookup_elem(&scratch, &zero);

	if (!wanted || !is_get(headers, end))
		return 0;
	__builtin_memset(wanted->key, 0, MOST_KEY);
	return read_key((char *)(headers + 1), end, wanted->key, &wanted->hash) ? wanted : 0;
}

/* memcached will answer: its reply is recognized by these. */
static __always_inline void await_reply(struct xdp_md *ctx, struct work *wanted)
{
	struct headers *headers = (void *)(long)ctx->data;
	struct awaited note = {};
	__u64 key;

	if ((void *)(headers + 1) > (void *)(long)ctx->data_end)
		return;
	key = conversation(headers->udp.source, headers->memcached.request);
	note.hash = wanted->hash;
	note.version = wanted->version;
	__builtin_memcpy(note.key, wanted->key, MOST_KEY);
	bpf_map_update_elem(&awaited, &key, &note, BPF_ANY);
}

static __always_inline int answer_or_pass(struct xdp_md *ctx, struct work *wanted)
{
	struct counters *counted = count();

	if (find(wanted)) {
		if (counted)
			__sync_fetch_and_add(&counted->hits, 1);
		return reply(ctx, wanted);
	}
	if (counted)
		__sync_fetch_and_add(&counted->misses, 1);
	await_reply(ctx, wanted);
	return XDP_PASS;
}

/* A write of the key: what the cache has is no longer true. */
static __always_inline void invalidate(const char *command, const void *end)
{
	__u32 zero = 0, key;
	struct work *wanted = bpf_map_lookup_elem(&scratch, &zero);
	struct place *place;
	struct counters *counted = count();

	if (!wanted || (const void *)(command + 4) > end)
		return;
	if (command[0] != 's' || command[1] != 'e' || command[2] != 't' || command[3] != ' ')
		return;
	__builtin_memset(wanted->key, 0, MOST_KEY);
	if (!read_key(command + 4, end, wanted->key, &wanted->hash))
		return;
	key = wanted->hash % PLACES;
	place = bpf_map_lookup_elem(&cache, &key);
	if (!place)
		return;
	bpf_spin_lock(&place->lock);
	place->version++;
	if (place->hash == wanted->hash)
		place->length = 0;
	bpf_spin_unlock(&place->lock);
	if (counted)
		__sync_fetch_and_add(&counted->invalidations, 1);
}

static __always_inline void watch_writes(struct xdp_md *ctx)
{
	struct headers *headers = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct tcphdr *tcp;
	__u32 offset;

	if ((void *)(headers + 1) > end || headers->ethernet.h_proto != bpf_htons(ETH_P_IP) || headers->ip.ihl != 5)
		return;
	if (headers->ip.protocol == IPPROTO_UDP && headers->udp.dest == bpf_htons(MEMCACHED_PORT)) {
		invalidate(headers->command, end);
		return;
	}
	tcp = (void *)&headers->udp;
	if (headers->ip.protocol != IPPROTO_TCP || (void *)(tcp + 1) > end || tcp->dest != bpf_htons(MEMCACHED_PORT))
		return;
	offset = tcp->doff * 4;
	if (offset < sizeof(*tcp) || (void *)tcp + 60 + 4 > end)
		return;
	invalidate((char *)tcp + (offset & 63), end);
}

SEC("xdp")
int answer(struct xdp_md *ctx)
{
	struct work *wanted = parse(ctx);

	if (!wanted) {
		watch_writes(ctx);
		return XDP_PASS;
	}
	return answer_or_pass(ctx, wanted);
}

SEC("xdp")
int answer_second(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct work *wanted = bpf_map_lookup_elem(&scratch, &zero);

	return wanted ? answer_or_pass(ctx, wanted) : XDP_PASS;
}

SEC("xdp")
int answer_by_calls(struct xdp_md *ctx)
{
	if (!parse(ctx)) {
		watch_writes(ctx);
		return XDP_PASS;
	}
	bpf_tail_call(ctx, &programs, 0);
	return XDP_PASS;
}

SEC("xdp")
int only_parse(struct xdp_md *ctx)
{
	if (!parse(ctx))
		watch_writes(ctx);
	return XDP_PASS;
}

/* Replies on their way out. A value that memcached has is kept when it fits into one datagram. */
SEC("tc")
int learn(struct __sk_buff *skb)
{
	struct headers *headers;
	struct counters *counted = count();
	struct awaited *note;
	struct work *fresh;
	struct place *place;
	__u32 zero = 0, length, key;
	__u64 talk;
	int start = __builtin_offsetof(struct headers, command);

	if (bpf_skb_pull_data(skb, sizeof(*headers)))
		return TC_ACT_OK;
	headers = (void *)(long)skb->data;
	if ((void *)(headers + 1) > (void *)(long)skb->data_end || headers->ethernet.h_proto != bpf_htons(ETH_P_IP))
		return TC_ACT_OK;
	if (headers->ip.ihl != 5 || headers->ip.protocol != IPPROTO_UDP || headers->udp.source != bpf_htons(MEMCACHED_PORT))
		return TC_ACT_OK;
	if (headers->memcached.datagrams != bpf_htons(1) || headers->command[0] != 'V' || headers->command[1] != 'A')
		return TC_ACT_OK;
	talk = conversation(headers->udp.dest, headers->memcached.request);
	note = bpf_map_lookup_elem(&awaited, &talk);
	fresh = bpf_map_lookup_elem(&scratch, &zero);
	length = bpf_ntohs(headers->udp.len) - sizeof(struct udphdr) - sizeof(struct memcached);
	if (!note || !fresh || length == 0 || length > MOST_REPLY)
		return TC_ACT_OK;
	if (bpf_skb_load_bytes(skb, start, fresh->reply, length))
		return TC_ACT_OK;
	key = note->hash % PLACES;
	place = bpf_map_lookup_elem(&cache, &key);
	if (!place)
		return TC_ACT_OK;
	bpf_spin_lock(&place->lock);
	if (place->version == note->version) {
		place->hash = note->hash;
		place->length = length;
		__builtin_memcpy(place->key, note->key, MOST_KEY);
		copy(place->reply, fresh->reply, length);
	}
	bpf_spin_unlock(&place->lock);
	bpf_map_delete_elem(&awaited, &talk);
	if (counted)
		__sync_fetch_and_add(&counted->updates, 1);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

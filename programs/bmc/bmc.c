// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The cache of this folder as one would write it in C for the verifier: what extensions are measured against.
 * Requests, replies and misses are handled as in Rust, and what is kept is kept under the same conditions,
 * but: writes are only noticed at the beginning of lines within a segment over IPv4 without options, of at
 * most LINES lines; commands that are split over segments, expiry times, answers to writes, `noreply` and
 * the meta and binary protocols are not looked at. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PORT 11211
#define SLOTS 65536
#define MOST_KEY 250
#define MOST_VALUE 1000
#define MOST_REPLY 1304 /* a multiple of eight */
#define MOST_TEXT 1392
#define MOST_REQUEST 1024
#define PATIENCE_NS 50000000
#define KEYS 30
#define LINES 16

struct frame {
	__be16 request;
	__be16 sequence;
	__be16 datagrams;
	__be16 reserved;
} __attribute__((packed));

struct headers {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct udphdr udp;
	struct frame frame;
} __attribute__((packed));

struct slot {
	struct bpf_spin_lock lock;
	__u32 hash;
	__u32 key_bytes;
	__u32 bytes; /* of the reply; 0 is an empty slot */
	__u64 awaited; /* the request whose reply may be kept here */
	__u64 awaited_until; /* no other is awaited until then */
	char reply[MOST_REPLY];
};

/* What a program works on: too large for the stack. */
struct work {
	__u32 hash;
	__u32 key; /* where it starts in the text */
	__u32 key_bytes;
	__u32 bytes; /* of the text */
	__u32 used; /* of the reply */
	__u32 value; /* where it starts in the text */
	__u32 value_bytes;
	__u32 pad;
	__u64 conversation;
	char text[MOST_TEXT + MOST_KEY + 14];
	char reply[MOST_TEXT + MOST_REPLY];
};

struct counters {
	__u64 hits;
	__u64 misses;
	__u64 fills;
	__u64 invalidations;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} cache SEC(".maps");

/* The first for XDP, the second for tc. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct work);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

/* Keeps the compiler from testing something else instead, which tells the verifier less. */
#define tested(number) asm volatile("" : "+r"(number))

static __always_inline struct counters *count(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

static __always_inline struct slot *slot_of(__u32 hash)
{
	__u32 key = hash % SLOTS;

	return bpf_map_lookup_elem(&cache, &key);
}

/* The key that starts at a place of the text, with its hash (FNV-1a). Returns where it ends, or less than
 * 0. A function of its own, of which callers know nothing but that: otherwise each length is a case. */
__noinline int read_key(struct work *work, __u32 at)
{
	__u32 hash = 2166136261u, length;

	if (!work || at >= MOST_TEXT)
		return -1;
	for (length = 0; length <= MOST_KEY; length++) {
		__u8 byte = work->text[at + length];

		if (byte <= ' ' || at + length >= work->bytes)
			break;
		hash = (hash ^ byte) * 16777619u;
	}
	if (length == 0 || length > MOST_KEY)
		return -1;
	work->hash = hash;
	work->key = at;
	work->key_bytes = length;
	return at + length;
}

/* Whether a slot has the key. The reply begins with VALUE and a blank. */
static __always_inline int has_key(struct slot *slot, struct work *work)
{
	__u32 bytes = work->key_bytes, key = work->key, at;

	if (!slot->bytes || slot->hash != work->hash || slot->key_bytes != bytes || key >= MOST_TEXT || bytes > MOST_KEY)
		return 0;
	for (at = 0; at < MOST_KEY; at += 8) {
		__u64 difference;

		if (at >= bytes)
			break;
		difference = *(__u64 *)(slot->reply + 6 + at) ^ *(__u64 *)(work->text + key + at);
		if (bytes - at < 8)
			difference &= (1ull << (8 * (bytes - at))) - 1;
		if (difference)
			return 0;
	}
	return 1;
}

/* Appends the value of the key to the reply, if it is known. */
__noinline int append(struct work *work)
{
	struct slot *slot;
	__u32 at, used, bytes;
	int found = 0;

	if (!work)
		return 0;
	used = work->used;
	slot = slot_of(work->hash);
	if (!slot || used >= MOST_TEXT)
		return 0;
	bpf_spin_lock(&slot->lock);
	if (has_key(slot, work)) {
		bytes = slot->bytes;
		for (at = 0; at < MOST_REPLY; at += 8) {
			if (at >= bytes)
				break;
			*(__u64 *)(work->reply + used + at) = *(__u64 *)(slot->reply + at);
		}
		work->used = used + bytes;
		found = 1;
	}
	bpf_spin_unlock(&slot->lock);
	return found;
}

/* memcached will be heard of the key. */
__noinline int await_reply(struct work *work)
{
	struct slot *slot;
	__u64 now = bpf_ktime_get_ns();

	if (!work)
		return 0;
	slot = slot_of(work->hash);
	if (!slot)
		return 0;
	bpf_spin_lock(&slot->lock);
	if (!has_key(slot, work) && (!slot->awaited || now >= slot->awaited_until)) {
		slot->awaited = work->conversation;
		slot->awaited_until = now + PATIENCE_NS;
	}
	bpf_spin_unlock(&slot->lock);
	return 0;
}

/* The key is written. */
__noinline int forget(struct work *work)
{
	struct slot *slot;
	struct counters *counted = count();

	if (!work)
		return 0;
	slot = slot_of(work->hash);
	if (!slot)
		return 0;
	bpf_spin_lock(&slot->lock);
	if (slot->hash == work->hash)
		slot->bytes = 0;
	slot->awaited = 0;
	bpf_spin_unlock(&slot->lock);
	if (counted)
		__sync_fetch_and_add(&counted->invalidations, 1);
	return 0;
}

/* Whether it is a whole datagram over plain IPv4 with all of a message, whose lengths agree. */
static __always_inline int is_whole(struct headers *headers)
{
	if (headers->ethernet.h_proto != bpf_htons(ETH_P_IP) || headers->ip.version != 4 || headers->ip.ihl != 5)
		return 0;
	if (headers->ip.protocol != IPPROTO_UDP || (headers->ip.frag_off & bpf_htons(0x3fff)))
		return 0;
	if (headers->frame.sequence || headers->frame.datagrams != bpf_htons(1))
		return 0;
	return bpf_ntohs(headers->ip.tot_len) == sizeof(struct iphdr) + bpf_ntohs(headers->udp.len) &&
	       bpf_ntohs(headers->udp.len) >= sizeof(struct udphdr) + sizeof(struct frame);
}

static __always_inline __u64 conversation(struct headers *headers, __be32 address, __be16 port)
{
	return (__u64)address << 32 | (__u32)port << 16 | headers->frame.request;
}

/* Turns the request into its answer. */
static __always_inline int send(struct xdp_md *ctx, struct work *work)
{
	__u32 bytes = work->used, sum, length;
	struct headers *headers;
	__u8 mac[ETH_ALEN];
	__be32 address;
	__be16 port;

	if (bytes == 0 || bytes > MOST_TEXT)
		return XDP_PASS;
	if (bpf_xdp_adjust_tail(ctx, (int)(sizeof(*headers) + bytes) - (int)bpf_xdp_get_buff_len(ctx)))
		return XDP_PASS;
	headers = (void *)(long)ctx->data;
	if ((void *)(headers + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	__builtin_memcpy(mac, headers->ethernet.h_source, ETH_ALEN);
	__builtin_memcpy(headers->ethernet.h_source, headers->ethernet.h_dest, ETH_ALEN);
	__builtin_memcpy(headers->ethernet.h_dest, mac, ETH_ALEN);
	address = headers->ip.saddr;
	headers->ip.saddr = headers->ip.daddr;
	headers->ip.daddr = address;
	port = headers->udp.source;
	headers->udp.source = headers->udp.dest;
	headers->udp.dest = port;
	length = sizeof(struct udphdr) + sizeof(struct frame) + bytes;
	sum = (~headers->ip.check & 0xffff) + (~headers->ip.tot_len & 0xffff);
	headers->ip.tot_len = bpf_htons(sizeof(struct iphdr) + length);
	sum += headers->ip.tot_len;
	sum = (sum & 0xffff) + (sum >> 16);
	headers->ip.check = ~((sum & 0xffff) + (sum >> 16));
	headers->udp.len = bpf_htons(length);
	headers->udp.check = 0;
	if (bpf_xdp_store_bytes(ctx, sizeof(*headers), work->reply, bytes))
		return XDP_ABORTED;
	return XDP_TX;
}

/* A request for keys, whose text is in `work`. */
static __always_inline int get(struct xdp_md *ctx, struct work *work)
{
	struct counters *counted = count();
	int at = 3, n, found = 1, verdict = XDP_PASS;

	work->used = 0;
	for (n = 0; n < KEYS && found; n++) {
		if (at < 0 || at >= MOST_REQUEST || work->text[at] != ' ')
			break;
		at = read_key(work, at + 1);
		if (at < 0)
			return XDP_PASS;
		found = append(work);
	}
	if (found && n && at >= 0 && at < MOST_REQUEST && at + 2 == work->bytes && work->text[at] == '\r' &&
	    work->text[at + 1] == '\n' && work->used < MOST_TEXT - 5) {
		__builtin_memcpy(work->reply + work->used, "END\r\n", 5);
		work->used += 5;
		verdict = send(ctx, work);
	}
	if (verdict != XDP_PASS) {
		if (counted)
			__sync_fetch_and_add(&counted->hits, 1);
		return verdict;
	}
	if (counted)
		__sync_fetch_and_add(&counted->misses, 1);
	at = 3;
	for (n = 0; n < KEYS; n++) {
		if (at < 0 || at >= MOST_REQUEST || work->text[at] != ' ')
			break;
		at = read_key(work, at + 1);
		if (at < 0)
			break;
		await_reply(work);
	}
	return XDP_PASS;
}

/* Where the next line starts. */
__noinline int next_line(struct work *work, __u32 at)
{
	__u32 i;

	if (!work)
		return -1;
	for (i = 0; i < MOST_TEXT; i++) {
		if (at >= MOST_TEXT || at >= work->bytes)
			return -1;
		if (work->text[at++] == '\n')
			return at;
	}
	return -1;
}

/* Bytes of the name of a command that changes a key, 0 of others. */
__noinline int writes(struct work *work, __u32 at)
{
	__u64 name;

	if (!work || at >= MOST_TEXT)
		return 0;
	name = *(__u64 *)(work->text + at);
#define IS(text, bytes) ((name & (~0ull >> (64 - 8 * (bytes)))) == text)
	if (IS(0x20746573, 4) || IS(0x20646461, 4) || IS(0x20736163, 4)) /* set add cas */
		return 4;
	if (IS(0x2072636e69, 5) || IS(0x2072636564, 5)) /* incr decr */
		return 5;
	if (IS(0x206863756f74, 6)) /* touch */
		return 6;
	if (IS(0x20646e65707061, 7) || IS(0x206574656c6564, 7)) /* append delete */
		return 7;
	if (name == 0x206563616c706572 || name == 0x20646e6570657270) /* replace prepend */
		return 8;
#undef IS
	return 0;
}

static __always_inline void watch(struct xdp_md *ctx, struct work *work)
{
	struct tcphdr *tcp = (void *)(long)ctx->data + sizeof(struct ethhdr) + sizeof(struct iphdr);
	struct ethhdr *ethernet = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(ethernet + 1);
	__u32 start, bytes;
	int at = 0, n, name;

	if ((void *)(tcp + 1) > (void *)(long)ctx->data_end || ethernet->h_proto != bpf_htons(ETH_P_IP))
		return;
	if (ip->ihl != 5 || ip->protocol != IPPROTO_TCP || tcp->dest != bpf_htons(PORT))
		return;
	start = sizeof(*ethernet) + sizeof(*ip) + 4 * tcp->doff;
	bytes = sizeof(*ethernet) + bpf_ntohs(ip->tot_len) - start;
	tested(bytes);
	if (bytes == 0 || bytes > MOST_TEXT)
		return;
	if (bpf_xdp_load_bytes(ctx, start, work->text, bytes))
		return;
	work->bytes = bytes;
	for (n = 0; n < LINES; n++) {
		name = writes(work, at);
		if (name > 0 && name <= 8 && read_key(work, at + name) > 0)
			forget(work);
		at = next_line(work, at);
		if (at < 0)
			break;
	}
}

SEC("xdp")
int answer(struct xdp_md *ctx)
{
	struct headers *headers = (void *)(long)ctx->data;
	__u32 zero = 0, bytes, *command = (void *)(headers + 1);
	struct work *work = bpf_map_lookup_elem(&scratch, &zero);

	if (!work)
		return XDP_PASS;
	if ((void *)(command + 1) <= (void *)(long)ctx->data_end && headers->udp.dest == bpf_htons(PORT) &&
	    is_whole(headers) && *command == bpf_htonl(0x67657420)) {
		bytes = bpf_ntohs(headers->udp.len) - sizeof(struct udphdr) - sizeof(struct frame);
		tested(bytes);
		if (bytes == 0 || bytes > MOST_REQUEST)
			return XDP_PASS;
		work->conversation = conversation(headers, headers->ip.saddr, headers->udp.source);
		if (bpf_xdp_load_bytes(ctx, sizeof(*headers), work->text, bytes))
			return XDP_PASS;
		work->bytes = bytes;
		return get(ctx, work);
	}
	watch(ctx, work);
	return XDP_PASS;
}

/* The value that starts at a place of the text: its header, of exactly four words, and its end. */
__noinline int read_value(struct work *work, __u32 start)
{
	__u32 i, words = 0, bytes = 0, at;
	int end;

	if (!work || start >= MOST_TEXT - 8)
		return -1;
	if (*(__u32 *)(work->text + start) != 0x554c4156 || work->text[start + 4] != 'E' || work->text[start + 5] != ' ')
		return -1;
	end = read_key(work, start + 6);
	if (end < 0)
		return -1;
	at = end;
	for (i = 0; i < 24; i++) {
		__u8 byte;

		tested(at);
		if (at >= MOST_TEXT)
			return -1;
		byte = work->text[at++];
		if (byte == '\r')
			break;
		if (byte == ' ') {
			words++;
			bytes = 0;
		} else if (byte >= '0' && byte <= '9' && bytes <= MOST_VALUE) {
			bytes = 10 * bytes + (byte - '0');
		} else {
			return -1;
		}
	}
	if (words != 2 || bytes > MOST_VALUE)
		return -1;
	at += 1 + bytes + 2;
	work->value = start;
	work->value_bytes = at - start;
	return at <= work->bytes ? (int)at : -1;
}

/* Keeps the value, if the slot awaits it. */
__noinline int fill(struct work *work)
{
	struct slot *slot;
	struct counters *counted = count();
	__u32 at, value, bytes;

	if (!work)
		return 0;
	value = work->value;
	bytes = work->value_bytes;
	slot = slot_of(work->hash);
	if (!slot || bytes > MOST_REPLY || value >= MOST_TEXT)
		return 0;
	bpf_spin_lock(&slot->lock);
	if (slot->awaited == work->conversation) {
		slot->awaited = 0;
		slot->hash = work->hash;
		slot->key_bytes = work->key_bytes;
		slot->bytes = bytes;
		for (at = 0; at < MOST_REPLY; at += 8) {
			if (at >= bytes || value + at > MOST_TEXT + MOST_KEY)
				break;
			*(__u64 *)(slot->reply + at) = *(__u64 *)(work->text + value + at);
		}
	}
	bpf_spin_unlock(&slot->lock);
	if (counted)
		__sync_fetch_and_add(&counted->fills, 1);
	return 0;
}

SEC("tc")
int learn(struct __sk_buff *skb)
{
	struct headers *headers;
	__u32 one = 1, bytes;
	struct work *work = bpf_map_lookup_elem(&scratch, &one);
	int at = 0, n;

	if (!work || bpf_skb_pull_data(skb, sizeof(*headers)))
		return TC_ACT_OK;
	headers = (void *)(long)skb->data;
	if ((void *)(headers + 1) > (void *)(long)skb->data_end)
		return TC_ACT_OK;
	if (headers->udp.source != bpf_htons(PORT) || !is_whole(headers))
		return TC_ACT_OK;
	bytes = bpf_ntohs(headers->udp.len) - sizeof(struct udphdr) - sizeof(struct frame);
	tested(bytes);
	if (bytes == 0 || bytes > MOST_TEXT)
		return TC_ACT_OK;
	work->conversation = conversation(headers, headers->ip.daddr, headers->udp.dest);
	if (bpf_skb_load_bytes(skb, sizeof(*headers), work->text, bytes))
		return TC_ACT_OK;
	work->bytes = bytes;
	for (n = 0; n < KEYS; n++) {
		at = read_value(work, at);
		if (at < 0)
			break;
		fill(work);
	}
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

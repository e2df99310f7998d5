// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The published design of the cache (BMC, NSDI 2021): seven programs that call each other as their tails, a
 * tail call for every key, since one program that does all of it is too much for the verifier. Written anew
 * from its description, to see what the verifier has to do for it; `bmc.c` is the one to use. It has the
 * published faults: it answers with what it knows when it does not know all keys, values are at most 128 bytes
 * longer than requests, and it only notices `set`. */
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
#define ENTRIES 65536
#ifndef MOST_KEY
#define MOST_KEY 250
#endif
#define MOST_VALUE 1000
#define MOST_REPLY (250 + MOST_VALUE + 53)
#define MOST_KEYS 30
/* So far text is looked at. */
#ifndef MOST_TEXT
#define MOST_TEXT 1500
#endif
/* So much longer than its request a reply may be. */
#define ROOM 128
#define BASIS 2166136261u
#define PRIME 16777619u

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

/* Where the first key of a request is. */
#define KEYS_AT ((int)sizeof(struct headers) + 4)

struct entry {
	struct bpf_spin_lock lock;
	__u32 bytes;
	__u32 hash;
	char valid;
	char data[MOST_REPLY];
};

struct key {
	__u32 hash;
	__u32 bytes;
	char data[MOST_KEY];
};

/* Where the work on a request is. */
struct progress {
	__u32 keys;
	__u32 current;
	__u32 read; /* bytes of the packet's head that are cut off, besides KEYS_AT */
	__u32 written;
};

struct statistics {
	__u64 gets;
	__u64 misses;
	__u64 hits;
	__u64 invalidations;
	__u64 updates;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ENTRIES);
	__type(key, __u32);
	__type(value, struct entry);
} cache SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MOST_KEYS);
	__type(key, __u32);
	__type(value, struct key);
} keys SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct progress);
} progress SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct statistics);
} statistics SEC(".maps");

enum { HASH_KEYS, PREPARE_PACKET, WRITE_REPLY, INVALIDATE_CACHE };
enum { UPDATE_CACHE };

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u32);
} xdp_programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} tc_programs SEC(".maps");

static __always_inline struct progress *its_progress(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&progress, &zero);
}

static __always_inline struct statistics *count(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&statistics, &zero);
}

static __always_inline struct entry *entry_of(__u32 hash)
{
	__u32 place = hash % ENTRIES;

	return bpf_map_lookup_elem(&cache, &place);
}

/* Of packets for memcached only those that matter go on. */
SEC("xdp")
int rx_filter(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end, *data = (void *)(long)ctx->data;
	struct ethhdr *ethernet = data;
	struct iphdr *ip = data + sizeof(*ethernet);
	struct udphdr *udp = (void *)(ip + 1);
	struct tcphdr *tcp = (void *)(ip + 1);
	struct statistics *counted;
	struct progress *progress;
	char *text;

	if ((void *)(ip + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	if (ip->protocol == IPPROTO_UDP) {
		text = (char *)(udp + 1) + sizeof(struct frame);
		if ((void *)(text + 4) > end || udp->dest != bpf_htons(PORT))
			return XDP_PASS;
		if (text[0] != 'g' || text[1] != 'e' || text[2] != 't' || text[3] != ' ')
			return XDP_PASS;
		progress = its_progress();
		counted = count();
		if (!progress || !counted)
			return XDP_PASS;
		__builtin_memset(progress, 0, sizeof(*progress));
		counted->gets++;
		if (bpf_xdp_adjust_head(ctx, KEYS_AT))
			return XDP_PASS;
		bpf_tail_call(ctx, &xdp_programs, HASH_KEYS);
		return XDP_ABORTED;
	}
	if (ip->protocol == IPPROTO_TCP) {
		if ((void *)(tcp + 1) > end || tcp->dest != bpf_htons(PORT))
			return XDP_PASS;
		bpf_tail_call(ctx, &xdp_programs, INVALIDATE_CACHE);
	}
	return XDP_PASS;
}

/* The next key, which is at the packet's head: is it perhaps known? */
SEC("xdp")
int hash_keys(struct xdp_md *ctx)
{
	char *end = (void *)(long)ctx->data_end, *text = (void *)(long)ctx->data;
	__u32 hash = BASIS, bytes = 0, at, place;
	struct statistics *counted = count();
	struct progress *progress = its_progress();
	int is_last = 0, is_candidate = 0;
	struct entry *entry;
	struct key *key;

	if (!progress || !counted || progress->keys >= MOST_KEYS)
		return XDP_PASS;
	place = progress->keys;
	key = bpf_map_lookup_elem(&keys, &place);
	if (!key)
		return XDP_PASS;
	for (at = 0; at < MOST_KEY + 1 && text + at + 1 <= end; at++) {
		if (text[at] == '\r') {
			is_last = 1;
			break;
		}
		if (text[at] == ' ')
			break;
		hash = (hash ^ (__u8)text[at]) * PRIME;
		bytes++;
	}
	if (bytes == 0 || bytes > MOST_KEY) {
		bpf_xdp_adjust_head(ctx, -(int)(KEYS_AT + progress->read));
		return XDP_PASS;
	}
	entry = entry_of(hash);
	if (!entry)
		return XDP_PASS;
	bpf_spin_lock(&entry->lock);
	is_candidate = entry->valid && entry->hash == hash;
	bpf_spin_unlock(&entry->lock);
	if (is_candidate) {
		for (at = 0; at < bytes && at < MOST_KEY && text + at + 1 <= end; at++)
			key->data[at] = text[at];
		key->hash = hash;
		key->bytes = bytes;
		progress->keys++;
	} else {
		counted->misses++;
	}
	if (is_last) {
		if (bpf_xdp_adjust_head(ctx, -(int)(KEYS_AT + progress->read)))
			return XDP_PASS;
		if (progress->keys)
			bpf_tail_call(ctx, &xdp_programs, PREPARE_PACKET);
		return XDP_PASS;
	}
	progress->read += bytes + 1;
	if (bpf_xdp_adjust_head(ctx, bytes + 1))
		return XDP_PASS;
	bpf_tail_call(ctx, &xdp_programs, HASH_KEYS);
	return XDP_PASS;
}

/* Makes room, and a reply's headers of the request's. */
SEC("xdp")
int prepare_packet(struct xdp_md *ctx)
{
	struct headers *from, *to;
	__u8 mac[ETH_ALEN];
	__be32 address;
	__be16 port;

	if (bpf_xdp_adjust_head(ctx, -ROOM))
		return XDP_PASS;
	to = (void *)(long)ctx->data;
	from = (void *)to + ROOM;
	if ((void *)(from + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	__builtin_memcpy(to, from, sizeof(*to));
	__builtin_memcpy(mac, to->ethernet.h_source, ETH_ALEN);
	__builtin_memcpy(to->ethernet.h_source, to->ethernet.h_dest, ETH_ALEN);
	__builtin_memcpy(to->ethernet.h_dest, mac, ETH_ALEN);
	address = to->ip.saddr;
	to->ip.saddr = to->ip.daddr;
	to->ip.daddr = address;
	port = to->udp.source;
	to->udp.source = to->udp.dest;
	to->udp.dest = port;
	to->udp.check = 0;
	if (bpf_xdp_adjust_head(ctx, sizeof(*to)))
		return XDP_PASS;
	bpf_tail_call(ctx, &xdp_programs, WRITE_REPLY);
	return XDP_ABORTED;
}

/* After the last key: an end, and headers that fit. */
static __always_inline int finish(struct xdp_md *ctx, struct progress *progress)
{
	char *end = (void *)(long)ctx->data_end, *text = (void *)(long)ctx->data;
	struct headers *headers;
	__u32 written = progress->written + 5, length, sum = 0, i;
	__u16 *words;
	long now;

	if (text + 5 > end || written > MOST_TEXT)
		return XDP_DROP;
	__builtin_memcpy(text, "END\r\n", 5);
	if (bpf_xdp_adjust_head(ctx, -(int)(sizeof(*headers) + progress->written)))
		return XDP_DROP;
	headers = (void *)(long)ctx->data;
	if ((void *)(headers + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	length = sizeof(struct udphdr) + sizeof(struct frame) + written;
	headers->udp.len = bpf_htons(length);
	headers->ip.tot_len = bpf_htons(sizeof(struct iphdr) + length);
	headers->ip.check = 0;
	words = (__u16 *)((void *)headers + sizeof(struct ethhdr));
	for (i = 0; i < sizeof(struct iphdr) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	headers->ip.check = ~((sum & 0xffff) + (sum >> 16));
	length = sizeof(*headers) + written;
	now = (void *)(long)ctx->data_end - (void *)headers;
	/* Not narrowed to 32 bits before it is a number. */
	asm volatile("" : "+r"(now));
	if (bpf_xdp_adjust_tail(ctx, (int)length - (int)now))
		return XDP_DROP;
	return XDP_TX;
}

/* The value of the next key goes to the packet's head. */
SEC("xdp")
int write_reply(struct xdp_md *ctx)
{
	char *end = (void *)(long)ctx->data_end, *text = (void *)(long)ctx->data;
	struct statistics *counted = count();
	struct progress *progress = its_progress();
	__u32 place, at = 0, written = 0;
	struct entry *entry;
	struct key *key;

	if (!progress || !counted || progress->current >= MOST_KEYS)
		return XDP_DROP;
	place = progress->current;
	key = bpf_map_lookup_elem(&keys, &place);
	if (!key)
		return XDP_DROP;
	entry = entry_of(key->hash);
	if (!entry)
		return XDP_DROP;
	bpf_spin_lock(&entry->lock);
	if (entry->valid && entry->hash == key->hash) {
		for (at = 0; at < MOST_KEY && at < key->bytes; at++)
			if (entry->data[6 + at] != key->data[at])
				break;
		if (at >= key->bytes) {
			for (at = 0; at + 8 <= MOST_REPLY && at + 8 <= entry->bytes && text + at + 8 <= end; at += 8)
				*(__u64 *)(text + at) = *(__u64 *)(entry->data + at);
			for (; at < MOST_REPLY && at < entry->bytes && text + at + 1 <= end; at++)
				text[at] = entry->data[at];
			written = at;
		}
	}
	bpf_spin_unlock(&entry->lock);
	counted->hits++;
	progress->written += written;
	progress->current++;
	if (bpf_xdp_adjust_head(ctx, written))
		return XDP_DROP;
	if (progress->current >= progress->keys)
		return finish(ctx, progress);
	bpf_tail_call(ctx, &xdp_programs, WRITE_REPLY);
	return XDP_DROP;
}

/* Whatever is set is not known any more. */
SEC("xdp")
int invalidate_cache(struct xdp_md *ctx)
{
	char *end = (void *)(long)ctx->data_end;
	struct headers *headers = (void *)(long)ctx->data;
	char *text = (void *)&headers->udp + sizeof(struct tcphdr);
	struct statistics *counted = count();
	__u32 at, hash = BASIS;
	struct entry *entry;
	int is_key = 0;

	if (!counted)
		return XDP_PASS;
	for (at = 0; at < MOST_TEXT && text + at + 4 <= end; at++) {
		if (!is_key) {
			if (text[at] == 's' && text[at + 1] == 'e' && text[at + 2] == 't' && text[at + 3] == ' ') {
				is_key = 1;
				hash = BASIS;
				at += 3;
			}
			continue;
		}
		if (text[at] != ' ') {
			hash = (hash ^ (__u8)text[at]) * PRIME;
			continue;
		}
		is_key = 0;
		entry = entry_of(hash);
		if (!entry)
			return XDP_PASS;
		bpf_spin_lock(&entry->lock);
		entry->valid = 0;
		bpf_spin_unlock(&entry->lock);
		counted->invalidations++;
	}
	return XDP_PASS;
}

/* Of what memcached says, values go on. */
SEC("tc")
int tx_filter(struct __sk_buff *skb)
{
	struct headers *headers = (void *)(long)skb->data;
	char *text = (void *)(headers + 1);

	if ((void *)(text + 6) > (void *)(long)skb->data_end)
		return TC_ACT_OK;
	if (headers->ethernet.h_proto != bpf_htons(ETH_P_IP) || headers->ip.protocol != IPPROTO_UDP)
		return TC_ACT_OK;
	if (headers->udp.source != bpf_htons(PORT))
		return TC_ACT_OK;
	if (text[0] == 'V' && text[1] == 'A' && text[2] == 'L' && text[3] == 'U' && text[4] == 'E' && text[5] == ' ')
		bpf_tail_call(skb, &tc_programs, UPDATE_CACHE);
	return TC_ACT_OK;
}

/* Fetches the packet's pointers anew: otherwise the verifier looks at what follows once for each number of bytes
 * that are known to be there. */
static __always_inline void look_again(struct __sk_buff *skb, char **text, char **end)
{
	*text = (char *)(long)*(volatile __u32 *)&skb->data + sizeof(struct headers);
	*end = (char *)(long)*(volatile __u32 *)&skb->data_end;
}

/* The value is kept, unless it is there. */
SEC("tc")
int update_cache(struct __sk_buff *skb)
{
	struct headers *headers = (void *)(long)skb->data;
	char *end = (void *)(long)skb->data_end, *text = (void *)(headers + 1);
	__u32 at, hash = BASIS, lines = 0;
	struct statistics *counted = count();
	struct entry *entry;
	int is_same = 1;

	if (!counted || text + 6 > end)
		return TC_ACT_OK;
	for (at = 6; at < 6 + MOST_KEY && text + at + 1 <= end; at++) {
		if (text[at] == ' ')
			break;
		hash = (hash ^ (__u8)text[at]) * PRIME;
	}
	entry = entry_of(hash);
	if (!entry)
		return TC_ACT_OK;
	look_again(skb, &text, &end);
	bpf_spin_lock(&entry->lock);
	if (entry->valid && entry->hash == hash) {
		for (at = 6; at < 6 + MOST_KEY && text + at + 1 <= end; at++) {
			if (text[at] == ' ')
				break;
			if (text[at] != entry->data[at]) {
				is_same = 0;
				break;
			}
		}
		if (is_same) {
			bpf_spin_unlock(&entry->lock);
			return TC_ACT_OK;
		}
	}
	entry->valid = 0;
	look_again(skb, &text, &end);
	for (at = 0; at < MOST_REPLY && text + at + 1 <= end && lines < 2; at++) {
		entry->data[at] = text[at];
		if (text[at] == '\n')
			lines++;
	}
	if (lines == 2) {
		entry->bytes = at;
		entry->hash = hash;
		entry->valid = 1;
	}
	bpf_spin_unlock(&entry->lock);
	if (lines == 2)
		counted->updates++;
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

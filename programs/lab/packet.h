// SPDX-License-Identifier: Apache-2.0 OR MIT
/* What the generator of the lab sends, and what every program of the lab needs to find its way in it:
 * Ethernet, IPv4 without options, UDP, and a payload that begins with a stamp. */
#pragma once
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define LAB_PORT 3030

struct stamp {
	__u64 intended_ns; /* when it should have been sent, by bpf_ktime_get_ns */
	__u32 sequence;
	__u32 work; /* for programs that do a chosen amount of work */
} __attribute__((packed));

struct frame {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct udphdr udp;
	struct stamp stamp;
} __attribute__((packed));

/* The frame, when it is one of the generator's; otherwise nothing. */
static __always_inline struct frame *lab_frame(void *data, void *data_end)
{
	struct frame *frame = data;

	if (data + sizeof(*frame) > data_end)
		return 0;
	if (frame->ethernet.h_proto != bpf_htons(ETH_P_IP) || frame->ip.ihl != 5)
		return 0;
	if (frame->ip.protocol != IPPROTO_UDP || frame->udp.dest != bpf_htons(LAB_PORT))
		return 0;
	return frame;
}

static __always_inline void swap_ethernet(struct ethhdr *ethernet)
{
	__u8 source[ETH_ALEN];

	__builtin_memcpy(source, ethernet->h_source, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, ethernet->h_dest, ETH_ALEN);
	__builtin_memcpy(ethernet->h_dest, source, ETH_ALEN);
}

/* Back to the sender. The sum of the addresses and of the ports stays the same, and so do the
 * checksums; UDP's is zeroed nevertheless, because what the sender's stack put there may be unfinished. */
static __always_inline void turn_around(struct frame *frame)
{
	__be32 address = frame->ip.saddr;
	__be16 port = frame->udp.source;

	swap_ethernet(&frame->ethernet);
	frame->ip.saddr = frame->ip.daddr;
	frame->ip.daddr = address;
	frame->udp.source = frame->udp.dest;
	frame->udp.dest = port;
	frame->udp.check = 0;
}

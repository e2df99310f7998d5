// SPDX-License-Identifier: Apache-2.0 OR MIT
/* What memcached puts before each datagram over UDP (its doc/protocol.txt). */
#pragma once
#include <linux/types.h>

#define MEMCACHED_PORT 11211

struct memcached {
	__be16 request;
	__be16 sequence;
	__be16 datagrams;
	__be16 reserved;
} __attribute__((packed));

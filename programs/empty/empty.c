// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The programs of this folder in C. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define EMPTY(name)				\
	SEC("xdp")				\
	int name(struct xdp_md *ctx)		\
	{					\
		return XDP_PASS;		\
	}

EMPTY(empty1)
EMPTY(empty2)
EMPTY(empty3)
EMPTY(empty4)
EMPTY(empty5)
EMPTY(empty6)
EMPTY(empty7)
EMPTY(empty8)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Programs that do nothing: what calling one takes. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int answer(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("tc")
int learn(struct __sk_buff *skb)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Behaves as its read-only data say, which a loader may set. */

#define SEC(name) __attribute__((section(name), used))

struct xdp_md {
    unsigned data, data_end;
};

const volatile unsigned limit = 0;
const volatile unsigned verdict = 2;

SEC("xdp")
int settings(struct xdp_md *context)
{
    if (limit && context->data_end - context->data > limit)
        return 1;
    return verdict;
}

char _license[] SEC("license") = "GPL";

// Two small programs with something to gain in each.
struct xdp_md {
	unsigned data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

__attribute__((section("xdp"), used)) int drop(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 14 > end)
		return 1;
	return data[12] == 8 && data[13] == 0 ? 2 : 1;
}

__attribute__((section("socket"), used)) int keep(void *skb)
{
	volatile unsigned char bytes[4];
	bytes[0] = 1;
	bytes[1] = 2;
	return bytes[0];
}

__attribute__((section("license"), used)) char licence_text[] = "GPL";

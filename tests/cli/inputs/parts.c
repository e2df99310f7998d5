// A function that is called once, one that nobody calls, and one that others may call.
#define SEC(name) __attribute__((section(name), used))

struct xdp_md {
	unsigned int data, data_end;
};

static __attribute__((noinline)) int is_long(unsigned char *data, unsigned char *end)
{
	return end - data > 1000 || data + 2 > end || data[1] == 3;
}

static __attribute__((noinline, used)) int unused(int x) { return x * 3; }

__attribute__((noinline)) int offered(int x) { return x + 1; }

SEC("xdp") int choose(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	return is_long(data, end) ? 1 : offered(1);
}

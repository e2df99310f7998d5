// The little of the kernel's and libbpf's headers that these programs need, so that they compile anywhere.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define __array(name, value) typeof(value) *name[]
#define noinline __attribute__((noinline))
#define hidden __attribute__((visibility("hidden")))
#define weak __attribute__((weak))
#define ksym SEC(".ksyms")
#define kconfig SEC(".kconfig")
#define relocatable __attribute__((preserve_access_index))

enum { HASH = 1, ARRAY = 2, ARRAY_OF_MAPS = 12 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const ktime)(void) = (void *)5;
static long (*const tail_call)(void *ctx, void *map, u32 index) = (void *)12;
static long (*const loop)(u32 count, void *callback, void *context, u64 flags) = (void *)181;

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

char _license[] SEC("license") = "GPL";

// Every way an instruction can refer to something.
#include "bpf.h"

struct { __uint(type, HASH); __type(key, u32); __type(value, u64); __uint(max_entries, 16); } table SEC(".maps");
struct inner { __uint(type, ARRAY); __type(key, u32); __type(value, u32); __uint(max_entries, 1); } leaf SEC(".maps");
struct {
	__uint(type, ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__array(values, struct inner);
} nest SEC(".maps") = { .values = { &leaf } };

const volatile u32 limit = 5;
static const volatile u32 hidden_limit = 9;
u32 counter = 7;
u32 zeroed;
static u64 totals[4];

extern u32 LINUX_KERNEL_VERSION kconfig;
extern _Bool CONFIG_MISSING kconfig weak;
extern const int bpf_prog_active ksym;
extern const void __init_begin ksym weak;
extern void bpf_rcu_read_lock(void) ksym;
extern void bpf_rcu_read_unlock(void) ksym;

struct task_struct { int pid; char comm[16]; } relocatable;

static noinline u32 scale(u32 x) { return x * hidden_limit + zeroed; }
noinline u32 shift(u32 x) { return x + counter + limit; }
hidden noinline u32 offset(u32 x) { return x + (u32)totals[2]; }
static long step(u32 i, void *context) { totals[i & 3] += scale(i); return 0; }

SEC("xdp") int count(struct xdp_md *ctx)
{
	u32 key = ctx->ingress_ifindex;
	u64 *value = map_lookup(&table, &key);
	if (!value)
		return 1;
	__sync_fetch_and_add(value, limit);
	*value += scale(key) + shift(3) + offset(key);
	loop(3, step, 0, 0);
	if (LINUX_KERNEL_VERSION > 0x50000 && !CONFIG_MISSING)
		totals[1]++;
	return 2;
}

SEC("tc") int nested(void *ctx)
{
	u32 key = 0;
	void *map = map_lookup(&nest, &key);
	u32 *value = map ? map_lookup(map, &key) : 0;
	return value ? *value + bpf_prog_active : shift(1);
}

SEC("tc") int second(void *ctx) { return scale(limit) + (&__init_begin != 0); }

SEC("tp_btf/task_newtask") int fields(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	bpf_rcu_read_lock();
	zeroed = task->pid + task->comm[3];
	bpf_rcu_read_unlock();
	return 0;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The module: a function for each hook that BPF programs call, and memory for each CPU. */
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/proc_fs.h>
#include <linux/vmalloc.h>
#include "run.h"

__bpf_kfunc_start_defs();

/* The pointers are really to `struct xdp_buff` and `struct sk_buff`, as for all such functions. */
__bpf_kfunc u64 kara_EXTENSION_xdp(struct xdp_md *context, u32 number)
{
	return kara_run_program(KARA_XDP, context, number);
}

__bpf_kfunc u64 kara_EXTENSION_tc(struct __sk_buff *context, u32 number)
{
	return kara_run_program(KARA_TC, context, number);
}

__bpf_kfunc_end_defs();

BTF_KFUNCS_START(kara_EXTENSION_xdp_ids)
BTF_ID_FLAGS(func, kara_EXTENSION_xdp)
BTF_KFUNCS_END(kara_EXTENSION_xdp_ids)

BTF_KFUNCS_START(kara_EXTENSION_tc_ids)
BTF_ID_FLAGS(func, kara_EXTENSION_tc)
BTF_KFUNCS_END(kara_EXTENSION_tc_ids)

static const struct btf_kfunc_id_set xdp_set = { .owner = THIS_MODULE, .set = &kara_EXTENSION_xdp_ids };
static const struct btf_kfunc_id_set tc_set = { .owner = THIS_MODULE, .set = &kara_EXTENSION_tc_ids };

/* /proc/kara_EXTENSION; the numbers are those by which BPF programs name the functions. */
static int show(struct seq_file *file, void *unused)
{
	seq_printf(file, "function xdp %u\n", kara_EXTENSION_xdp_ids.pairs[0].id);
	seq_printf(file, "function tc %u\n", kara_EXTENSION_tc_ids.pairs[0].id);
	kara_show(file);
	return 0;
}

static void free_memory(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct kara_run *run = per_cpu(kara_control, cpu);

		if (run)
			vfree(run->stack);
		vfree(run);
	}
}

/* A control page and a heap, and a stack with a page that is not there at either end, as vmalloc makes them. */
static int get_memory(int cpu)
{
	struct kara_run *run = vzalloc(KARA_HEAP_AT + KARA_HEAP_BYTES);

	per_cpu(kara_control, cpu) = run;
	if (!run)
		return -ENOMEM;
	run->stack = vzalloc(KARA_RESERVE_BYTES + KARA_STACK_BYTES);
	if (!run->stack)
		return -ENOMEM;
	run->stack_top = (u64)run->stack + KARA_RESERVE_BYTES + KARA_STACK_BYTES;
	per_cpu(kara_stack_limit, cpu) = (u64)run->stack + KARA_RESERVE_BYTES;
	return 0;
}

/* Has every CPU take itself for running already, or no longer: for tests of what then happens. */
static int set_busy(const char *text, const struct kernel_param *parameter)
{
	bool is_busy;
	int cpu, error = kstrtobool(text, &is_busy);

	if (error)
		return error;
	for_each_possible_cpu(cpu) {
		struct kara_run *run = per_cpu(kara_control, cpu);

		if (run)
			WRITE_ONCE(run->is_busy, is_busy);
	}
	return 0;
}

static const struct kernel_param_ops busy_operations = { .set = set_busy };
module_param_cb(busy, &busy_operations, NULL, 0200);
MODULE_PARM_DESC(busy, "for tests: whether every CPU takes itself for running already");

static int __init enter(void)
{
	int cpu, error = 0;

	for_each_possible_cpu(cpu)
		error = error ?: get_memory(cpu);
	if (error)
		goto no_memory;
	error = kara_watchdog_start();
	if (error)
		goto no_memory;
	error = -ENOMEM;
	if (!proc_create_single("kara_EXTENSION", 0444, NULL, show))
		goto no_file;
	error = register_btf_kfunc_id_set(BPF_PROG_TYPE_XDP, &xdp_set);
	error = error ?: register_btf_kfunc_id_set(BPF_PROG_TYPE_SCHED_CLS, &tc_set);
	if (!error)
		return 0;
	remove_proc_entry("kara_EXTENSION", NULL);
no_file:
	kara_watchdog_stop();
no_memory:
	free_memory();
	return error;
}

/* Not before the last program that calls us is gone: they hold the module. */
static void __exit leave(void)
{
	remove_proc_entry("kara_EXTENSION", NULL);
	kara_watchdog_stop();
	free_memory();
}

module_init(enter);
module_exit(leave);
MODULE_DESCRIPTION("Packet programs in safe Rust: EXTENSION");
MODULE_LICENSE("Dual MIT/GPL");

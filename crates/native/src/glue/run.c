// SPDX-License-Identifier: Apache-2.0 OR MIT
/* One run: the state it finds, and what is left of it. */
#include <linux/bottom_half.h>
#include <linux/build_bug.h>
#include <linux/filter.h>
#include <linux/pkt_cls.h>
#include "run.h"

DEFINE_PER_CPU(struct kara_run *, kara_control);
DEFINE_PER_CPU(u64, kara_stack_limit);

static_assert(offsetof(struct kara_run, heap_next) == KARA_HEAP_NEXT);
static_assert(offsetof(struct kara_run, held) == KARA_HELD);
static_assert(offsetof(struct kara_run, saved_sp) == KARA_SAVED_SP);
static_assert(offsetof(struct kara_run, stack_top) == KARA_STACK_TOP);
static_assert(offsetof(struct kara_run, fault) == KARA_FAULT);
static_assert(offsetof(struct kara_run, locks) == KARA_LOCKS);
static_assert(offsetof(struct kara_run, data) == KARA_PACKET);
static_assert(offsetof(struct kara_run, place) == KARA_PLACE);
static_assert(offsetof(struct kara_run, file) == KARA_FILE);
static_assert(offsetof(struct kara_run, file_length) == KARA_FILE_LENGTH);
static_assert(offsetof(struct kara_run, line) == KARA_LINE);
static_assert(sizeof(struct kara_run) <= KARA_HEAP_AT);

/* The number that a lock carries which this CPU has on record at that place. */
static u32 owner(struct kara_run *run, int place)
{
	u32 cpu = (u32)((unsigned long)run >> KARA_PAGE_BITS) & ((1U << KARA_OWNER_BITS) - 1);

	return cpu | (u32)place << KARA_OWNER_BITS | 1U << KARA_HELD_BIT;
}

/*
 * Gives back what the run still holds. A lock may be on record that it never got, or has given back
 * already, and that somebody else has now: the owner's number tells.
 */
static void release(struct kara_run *run)
{
	int place;

	for (place = 0; place < KARA_MOST_LOCKS; place++) {
		u32 *lock = run->locks[place];

		run->locks[place] = NULL;
		if (lock)
			cmpxchg(lock, owner(run, place), 0);
	}
	run->held = 0;
}

static u64 run_on_own_stack(struct kara_run *run, u32 number)
{
	const struct kara_program *program = &kara_programs[number];
	u32 verdict;

	run->heap_next = (u64)run + KARA_HEAP_AT;
	run->redirect_to = 0;
	run->fault = 0;
	verdict = kara_enter(run, program->run);
	if (unlikely(READ_ONCE(run->fault))) {
		release(run);
		kara_report(run, number);
		return program->on_panic;
	}
	if (unlikely(run->held)) {
		release(run);
		atomic64_inc(&kara_states[number].leaked);
	}
	/* The BPF program does the rest: only it can call the helper. */
	if (verdict == (run->hook == KARA_XDP ? XDP_REDIRECT : TC_ACT_REDIRECT))
		return verdict | (u64)run->redirect_to << 32;
	return verdict;
}

/* Runs a program; returns its verdict, and above it the interface to redirect to. */
u64 kara_run_program(enum kara_hook hook, void *context, u32 number)
{
	const struct kara_program *program = &kara_programs[number];
	struct kara_run *run;
	u64 verdict;

	if (unlikely(number >= kara_program_count || program->hook != hook))
		return hook == KARA_XDP ? XDP_ABORTED : TC_ACT_SHOT;
	/* Packets at process level must not be interrupted by packets: there is one stack. */
	local_bh_disable();
	run = this_cpu_read(kara_control);
	if (unlikely(run->is_busy)) {
		atomic64_inc(&kara_states[number].nested);
		local_bh_enable();
		return program->on_panic;
	}
	run->sequence++;
	WRITE_ONCE(run->is_busy, 1);
	run->hook = hook;
	run->context = context;
	verdict = kara_packet_begin(run) ? program->on_panic : run_on_own_stack(run, number);
	WRITE_ONCE(run->is_busy, 0);
	local_bh_enable();
	return verdict;
}

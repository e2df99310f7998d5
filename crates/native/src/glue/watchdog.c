// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Ends runs that take too long. A timer on each CPU looks whether the run is the same as at the last tick,
 * so that runs themselves have nothing to do for it.
 */
#include <linux/cpuhotplug.h>
#include <linux/moduleparam.h>
#include <linux/ptrace.h>
#include <linux/random.h>
#include <asm/irq_regs.h>
#include "run.h"

/* Functions of the kernel that programs call end by themselves: look again soon, and not in step with a loop. */
#define SOON_NS 20000

static unsigned int limit_ms = 250;
module_param(limit_ms, uint, 0444);
MODULE_PARM_DESC(limit_ms, "milliseconds after which a run is ended at the latest");

static enum cpuhp_state hotplug_state;

static u64 period_ns(void)
{
	return max(limit_ms, 2U) * (u64)NSEC_PER_MSEC / 2;
}

static bool is_code(unsigned long ip)
{
	return ip >= (unsigned long)kara_code_start && ip < (unsigned long)kara_code_end;
}

static enum hrtimer_restart tick(struct hrtimer *timer)
{
	struct kara_run *run = container_of(timer, struct kara_run, timer);
	struct pt_regs *regs = get_irq_regs();
	u64 next = period_ns();

	if (READ_ONCE(run->is_busy) && run->seen == run->sequence) {
		if (regs && !user_mode(regs) && is_code(regs->ip)) {
			run->fault = KARA_TIMEOUT;
			run->place = regs->ip;
			/* Returns to there instead of where it came from. */
			regs->ip = (unsigned long)kara_leave;
		} else {
			next = SOON_NS + get_random_u32() % SOON_NS;
		}
	}
	run->seen = run->sequence;
	hrtimer_forward_now(timer, ns_to_ktime(next));
	return HRTIMER_RESTART;
}

static int start(unsigned int cpu)
{
	struct kara_run *run = per_cpu(kara_control, cpu);

	hrtimer_init(&run->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	run->timer.function = tick;
	hrtimer_start(&run->timer, ns_to_ktime(period_ns()), HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}

static int stop(unsigned int cpu)
{
	hrtimer_cancel(&per_cpu(kara_control, cpu)->timer);
	return 0;
}

int kara_watchdog_start(void)
{
	int state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "kara/EXTENSION:online", start, stop);

	hotplug_state = state;
	return min(state, 0);
}

void kara_watchdog_stop(void)
{
	cpuhp_remove_state(hotplug_state);
}

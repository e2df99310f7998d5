// SPDX-License-Identifier: Apache-2.0 OR MIT
/* What went wrong: in the kernel's log, and with all counts in /proc/kara_EXTENSION. */
#include <linux/printk.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>
#include "run.h"

#define LOG_ENTRIES 64

struct entry {
	u64 time;
	u32 cpu, program, line;
	u64 fault;
	const char *file;
	int file_length;
};

static struct entry entries[LOG_ENTRIES];
static u64 entry_count;
static DEFINE_RAW_SPINLOCK(entries_lock);

static const char *what(u64 fault)
{
	switch (fault) {
	case KARA_OVERFLOW:
		return "stack overflow";
	case KARA_TIMEOUT:
		return "a loop took too long";
	default:
		return "panic";
	}
}

/* The line of an address in the program's code, from the table that the build made of the debug information. */
static const struct kara_line *line_of(u64 place)
{
	u64 offset = place - (u64)kara_code_start;
	unsigned int low = 0, high = kara_line_count;

	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (kara_lines[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &kara_lines[low - 1] : NULL;
}

static struct entry entry_of(struct kara_run *run, u32 number)
{
	struct entry entry = {
		.time = ktime_get_mono_fast_ns(), .cpu = raw_smp_processor_id(), .program = number, .fault = run->fault,
	};
	const struct kara_line *line;

	if (run->fault == KARA_PANIC) {
		entry.file = run->file;
		entry.file_length = run->file_length;
		entry.line = run->line;
		return entry;
	}
	line = line_of(run->place);
	entry.file = line ? kara_files[line->file] : "?";
	entry.file_length = strlen(entry.file);
	entry.line = line ? line->line : 0;
	return entry;
}

/* Counts a fault and says it, on the stack that the run came from. */
void kara_report(struct kara_run *run, u32 number)
{
	struct entry entry = entry_of(run, number);
	unsigned long flags;

	atomic64_inc(&kara_states[number].panics);
	raw_spin_lock_irqsave(&entries_lock, flags);
	entries[entry_count++ % LOG_ENTRIES] = entry;
	raw_spin_unlock_irqrestore(&entries_lock, flags);
	printk_ratelimited(KERN_WARNING "kara_EXTENSION: %s: %s at %.*s:%u\n", kara_programs[number].name,
			   what(entry.fault), entry.file_length, entry.file, entry.line);
}

static void show_entries(struct seq_file *file)
{
	u64 at = 0;

	for (;; at++) {
		struct entry entry;
		unsigned long flags;

		raw_spin_lock_irqsave(&entries_lock, flags);
		if (at + LOG_ENTRIES < entry_count)
			at = entry_count - LOG_ENTRIES;
		entry = entries[at % LOG_ENTRIES];
		if (at >= entry_count)
			entry.file = NULL;
		raw_spin_unlock_irqrestore(&entries_lock, flags);
		if (!entry.file)
			return;
		seq_printf(file, "panic %llu %u %s %u %.*s\t%s\n", entry.time, entry.cpu,
			   kara_programs[entry.program].name, entry.line, entry.file_length, entry.file,
			   what(entry.fault));
	}
}

/* What user space wants to know of the programs, a line for each thing. */
void kara_show(struct seq_file *file)
{
	u32 n;

	for (n = 0; n < kara_program_count; n++) {
		const struct kara_program *program = &kara_programs[n];
		struct kara_state *state = &kara_states[n];

		seq_printf(file, "program %s %s %lld %lld %lld\n", program->name,
			   program->hook == KARA_XDP ? "xdp" : "tc", atomic64_read(&state->panics),
			   atomic64_read(&state->nested), atomic64_read(&state->leaked));
	}
	for (n = 0; n < kara_counter_count; n++)
		seq_printf(file, "counter %s %llu\n", kara_counters[n].name, READ_ONCE(*kara_counters[n].value));
	show_entries(file);
}

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a run of an extension's program is, for C and for assembly. What layout.h has is agreed on with
 * the extension crate, whose layout.rs it is made of.
 */
#ifndef KARA_RUN_H
#define KARA_RUN_H

#include "layout.h"

#define KARA_SAVED_SP 0x28
#define KARA_STACK_TOP 0x30
#define KARA_FAULT 0x38
#define KARA_PLACE 0x98
#define KARA_FILE 0xa0
#define KARA_FILE_LENGTH 0xa8
#define KARA_LINE 0xb0

/* Why a run ended early. */
#define KARA_PANIC 1
#define KARA_OVERFLOW 2
#define KARA_TIMEOUT 3

#ifndef __ASSEMBLY__
#include <linux/hrtimer.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/types.h>

/* The program's part of the stack; below it is what interrupts and functions of the kernel need. */
#define KARA_STACK_BYTES (192 << 10)
#define KARA_RESERVE_BYTES (16 << 10)
#define KARA_HEAP_BYTES (512 << 10)
/* Where the heap starts in the control page's area. */
#define KARA_HEAP_AT 4096

enum kara_hook { KARA_XDP, KARA_TC };

/* One for each CPU: the control page. */
struct kara_run {
	u64 is_busy;
	u64 sequence;	/* number of the run */
	u64 seen;	/* number of the run at the last tick */
	u64 heap_next;
	u64 held;	/* places in `locks` that may be in use */
	u64 saved_sp;
	u64 stack_top;
	u64 fault;
	u32 *locks[KARA_MOST_LOCKS];
	u8 *data;
	u64 length;
	u64 is_writable;
	u64 place;	/* address of the fault */
	const char *file;
	u64 file_length;
	u64 line;
	enum kara_hook hook;
	void *context;
	u32 redirect_to;
	void *stack;
	struct hrtimer timer;
};

struct kara_program {
	const char *name;
	enum kara_hook hook;
	u32 on_panic;
	u32 (*run)(void);
};

struct kara_state {
	atomic64_t runs, panics, nested, leaked;
};

struct kara_counter {
	const char *name;
	const u64 *value;
};

/* From this offset in the code on, up to that of the next one. */
struct kara_line {
	u32 offset, file, line;
};

/* The extension: tables.c */
extern const struct kara_program kara_programs[];
extern const struct kara_counter kara_counters[];
extern const struct kara_line kara_lines[];
extern const char *const kara_files[];
extern const unsigned int kara_program_count, kara_counter_count, kara_line_count;
extern struct kara_state kara_states[];
extern const char kara_code_start[], kara_code_end[];

DECLARE_PER_CPU(struct kara_run *, kara_control);
DECLARE_PER_CPU(u64, kara_stack_limit);

/* entry.S */
u32 kara_enter(struct kara_run *run, u32 (*program)(void));
void kara_leave(void);

/* run.c */
u64 kara_run_program(enum kara_hook hook, void *context, u32 number);
bool kara_run_begin(struct kara_run *run);

/* packet.c */
int kara_packet_begin(struct kara_run *run);

/* report.c */
void kara_report(struct kara_run *run, u32 number);
void kara_show(struct seq_file *file);

/* watchdog.c */
int kara_watchdog_start(void);
void kara_watchdog_stop(void);
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The ways into a program, on a stack of its own, and out of it, wherever it is. */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/nospec-branch.h>
#include <asm/percpu.h>
#include "run.h"

	.text

/* u32 kara_enter(struct kara_run *run, u32 (*program)(void)) */
SYM_FUNC_START(kara_enter)
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, KARA_SAVED_SP(%rdi)
	movq	KARA_STACK_TOP(%rdi), %rsp
	CALL_NOSPEC rsi
	/* Faults end here too, from whatever depth: nothing above is needed any more. */
SYM_INNER_LABEL(kara_leave, SYM_L_GLOBAL)
	cld
	movq	PER_CPU_VAR(kara_control), %rdi
	movq	KARA_SAVED_SP(%rdi), %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	RET
SYM_FUNC_END(kara_enter)
STACK_FRAME_NON_STANDARD kara_enter

/* A Rust panic: kara_panic(file, length, line), does not return. */
SYM_FUNC_START(kara_panic)
	movq	PER_CPU_VAR(kara_control), %rax
	movq	%rdi, KARA_FILE(%rax)
	movq	%rsi, KARA_FILE_LENGTH(%rax)
	movq	%rdx, KARA_LINE(%rax)
	movq	$KARA_PANIC, KARA_FAULT(%rax)
	jmp	kara_leave
SYM_FUNC_END(kara_panic)
STACK_FRAME_NON_STANDARD kara_panic

/* Called where a function begins whose frame does not fit any more. */
SYM_FUNC_START(__morestack)
	movq	PER_CPU_VAR(kara_control), %rax
	popq	KARA_PLACE(%rax)
	movq	$KARA_OVERFLOW, KARA_FAULT(%rax)
	jmp	kara_leave
SYM_FUNC_END(__morestack)
STACK_FRAME_NON_STANDARD __morestack

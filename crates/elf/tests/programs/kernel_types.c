// What passes for a kernel: types with the names of `core.c`, laid out otherwise.
#include "bpf.h"

struct first { int other; int x; };
enum color { RED = 7, GREEN = 0x11223344 };
enum big { HUGE = 0x123456789abcULL };
struct inner { short s; };
typedef struct { int value; } named_t;
union either { u32 a; u64 b; };

struct subject {
	long padding;
	struct {
		u64 hidden_in_anonymous;
		u16 narrow;
	};
	u64 widened;
	u32 bits_a : 3, bits_b : 5;
	int array[8];
	struct first nested[2];
	struct inner *pointer;
	enum color color;
	int changed_kind;
	char tail[];
};

struct only_here { int x; };
struct task_struct { u64 stack; int pid; char comm[16]; };

typedef void (*btf_trace_task_newtask)(void *);

int bpf_prog_active;
void bpf_rcu_read_lock(void) {}
void bpf_rcu_read_unlock(void) {}
int kernel_function(struct subject *s, int n) { return s->color + n; }

struct subject *use_subject;
enum big use_big;
named_t *use_named;
union either *use_either;
struct only_here use_only;
struct inner use_inner;
struct task_struct *use_task;
btf_trace_task_newtask use_trace;

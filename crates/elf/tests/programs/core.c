// Every question that CO-RE can ask, each answer stored at its own place.
#include "bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct first { int x; };
struct inner { short s; };
enum color { RED = 1, GREEN = 2, BLUE = 3 };
enum big { HUGE = 1 };
typedef struct { int value; } named_t;
union either { u64 b; };
struct subject {
	u64 hidden_in_anonymous;
	u32 narrow;
	u32 widened;
	u32 bits_b : 5;
	int array[8];
	struct first nested[2];
	struct inner *pointer;
	u32 gone;
	void *changed_kind;
	char tail[];
};
struct subject___other_flavour { enum color color; };
struct not_in_kernel { int x; };
#pragma clang attribute pop

u64 answers[32];

#define info __builtin_preserve_field_info
#define type_info(type, kind) __builtin_preserve_type_info(*(typeof(type) *)0, kind)
#define variant(type, name, kind) __builtin_preserve_enum_value(*(typeof(type) *)name, kind)
enum { OFFSET, SIZE, EXISTS, SIGNED, LSHIFT, RSHIFT };

SEC("raw_tp/test") int ask(struct subject *s)
{
	struct subject___other_flavour *o = (void *)s;
	answers[0] = info(s->hidden_in_anonymous, OFFSET);
	answers[1] = info(s->narrow, SIZE);
	answers[2] = info(s->gone, EXISTS);
	answers[3] = info(s->array[5], OFFSET);
	answers[4] = info(s->nested[1].x, OFFSET);
	answers[5] = info(s->bits_b, LSHIFT);
	answers[6] = info(s->bits_b, RSHIFT);
	answers[7] = info(s->array[0], SIZE);
	answers[8] = info(o->color, EXISTS);
	answers[9] = info(o->color, OFFSET);
	answers[10] = info(s->changed_kind, EXISTS);
	answers[11] = type_info(struct subject, 0);
	answers[12] = type_info(struct not_in_kernel, 0);
	answers[13] = type_info(named_t, 1);
	answers[14] = type_info(union either, 1);
	answers[15] = type_info(struct first, 2);
	answers[16] = type_info(struct inner, 2);
	answers[17] = variant(enum color, RED, 1);
	answers[18] = variant(enum color, GREEN, 1);
	answers[19] = variant(enum color, BLUE, 0);
	answers[20] = variant(enum big, HUGE, 1);
	answers[21] = s->narrow;
	answers[22] = s->widened;
	answers[23] = (u64)s->pointer;
	answers[24] = info(s->tail[3], OFFSET);
	answers[25] = info(s->bits_b, OFFSET);
	answers[26] = info(s->narrow, SIGNED);
	answers[27] = info(s->nested[0].x, SIGNED);
	return 0;
}

SEC("raw_tp/test") int lost(struct subject *s)
{
	return info(s->gone, EXISTS) ? s->gone : variant(enum color, BLUE, 0) ? variant(enum color, BLUE, 1) : 5;
}

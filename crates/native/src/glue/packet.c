// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The host functions: the packet as memory, what changes its size, and the rest that programs ask for. */
#include <linux/etherdevice.h>
#include <linux/filter.h>
#include <linux/pkt_cls.h>
#include <linux/random.h>
#include <linux/skbuff.h>
#include <linux/timekeeping.h>
#include <net/xdp.h>
#include "run.h"

u64 kara_now(void);
u32 kara_random(void);
u32 kara_cpu(void);
u32 kara_interface(void);
u32 kara_redirect(u32 interface, u32 flags);
u32 kara_make_writable(void);
int kara_adjust_head(int delta);
int kara_adjust_tail(int delta);

static void look_at_xdp(struct kara_run *run)
{
	struct xdp_buff *xdp = run->context;

	run->data = xdp->data;
	run->length = xdp->data_end - xdp->data;
	run->is_writable = 1;
}

static void look_at_skb(struct kara_run *run)
{
	struct sk_buff *skb = run->context;

	run->data = skb->data;
	run->length = skb->len;
	run->is_writable = !skb_cloned(skb);
}

/* Makes the packet's bytes known to the program: of XDP the linear part, of tc all. */
int kara_packet_begin(struct kara_run *run)
{
	if (run->hook == KARA_XDP) {
		look_at_xdp(run);
		return 0;
	}
	if (skb_linearize(run->context))
		return -ENOMEM;
	look_at_skb(run);
	return 0;
}

u64 kara_now(void)
{
	return ktime_get_mono_fast_ns();
}

u32 kara_random(void)
{
	return get_random_u32();
}

u32 kara_cpu(void)
{
	return raw_smp_processor_id();
}

u32 kara_interface(void)
{
	struct kara_run *run = this_cpu_read(kara_control);
	struct net_device *device = run->hook == KARA_XDP ?
		((struct xdp_buff *)run->context)->rxq->dev : ((struct sk_buff *)run->context)->dev;

	return device ? device->ifindex : 0;
}

u32 kara_redirect(u32 interface, u32 flags)
{
	struct kara_run *run = this_cpu_read(kara_control);

	run->redirect_to = interface;
	return run->hook == KARA_XDP ? XDP_REDIRECT : TC_ACT_REDIRECT;
}

/* Before the first write to a packet that others may have too; 0 when there is no memory for a copy. */
u32 kara_make_writable(void)
{
	struct kara_run *run = this_cpu_read(kara_control);
	struct sk_buff *skb = run->context;

	if (run->hook != KARA_TC || skb_ensure_writable(skb, skb->len))
		return 0;
	look_at_skb(run);
	run->is_writable = 1;
	return 1;
}

int kara_adjust_head(int delta)
{
	struct kara_run *run = this_cpu_read(kara_control);
	struct xdp_buff *xdp = run->context;
	unsigned long meta;
	void *data;

	if (run->hook != KARA_XDP)
		return -EOPNOTSUPP;
	meta = xdp_data_meta_unsupported(xdp) ? 0 : xdp->data - xdp->data_meta;
	data = xdp->data + delta;
	if (data < xdp->data_hard_start + sizeof(struct xdp_frame) + meta || data + ETH_HLEN > xdp->data_end)
		return -EINVAL;
	if (meta)
		memmove(xdp->data_meta + delta, xdp->data_meta, meta);
	xdp->data_meta += delta;
	xdp->data = data;
	look_at_xdp(run);
	return 0;
}

static int adjust_xdp_tail(struct xdp_buff *xdp, int delta)
{
	void *end = xdp->data_end + delta;

	/* What else there is of the packet would have to move. */
	if (xdp_buff_has_frags(xdp))
		return -EOPNOTSUPP;
	if (end > xdp_data_hard_end(xdp) || end < xdp->data + ETH_HLEN)
		return -EINVAL;
	if (delta > 0)
		memset(xdp->data_end, 0, delta);
	xdp->data_end = end;
	return 0;
}

static int adjust_skb_tail(struct sk_buff *skb, int delta)
{
	long length = (long)skb->len + delta;
	unsigned int before = skb->len;
	int error;

	if (length < ETH_HLEN || length > (skb->dev ? skb->dev->mtu + skb->dev->hard_header_len : SKB_MAX_ALLOC))
		return -EINVAL;
	error = skb_ensure_writable(skb, skb->len);
	if (!error)
		error = delta > 0 ? __skb_grow_rcsum(skb, length) : __skb_trim_rcsum(skb, length);
	if (error)
		return error;
	if (delta > 0)
		memset(skb->data + before, 0, delta);
	if (skb_is_gso(skb))
		skb_gso_reset(skb);
	return 0;
}

int kara_adjust_tail(int delta)
{
	struct kara_run *run = this_cpu_read(kara_control);
	int error;

	if (run->hook == KARA_XDP) {
		error = adjust_xdp_tail(run->context, delta);
		look_at_xdp(run);
	} else {
		error = adjust_skb_tail(run->context, delta);
		look_at_skb(run);
	}
	return error;
}

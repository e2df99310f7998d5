// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The way back of service addresses: a UDP socket that sent to a service was redirected to one of its
// backends, so what it receives comes from the backend. Here the sender's address becomes the
// service's again, before recvmsg returns it.

#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PROCEED 1

// Who a socket believes to talk to, by the socket and the backend. Written at sendmsg.
struct backend_of_socket {
	__u64 cookie;
	__be32 address;
	__be16 port;
	__u16 pad;
};

struct service_of_socket {
	__be32 address;
	__be16 port;
	__u16 service;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct backend_of_socket);
	__type(value, struct service_of_socket);
} reverse SEC(".maps");

struct service_key {
	__be32 address;
	__be16 port;
	__u8 protocol;
	__u8 scope;
};

struct service {
	__u16 id;
	__u16 backends;
	__u32 flags;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct service_key);
	__type(value, struct service);
} services SEC(".maps");

enum outcome { NOT_A_SERVICE, TRANSLATED, STALE, OUTCOMES };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, OUTCOMES);
	__type(key, __u32);
	__type(value, __u64);
} outcomes SEC(".maps");

static __always_inline int finish(__u32 outcome)
{
	__u64 *count = bpf_map_lookup_elem(&outcomes, &outcome);

	if (count)
		(*count)++;
	return PROCEED;
}

// The service may have been removed, or its address given to another one, since the request.
static __always_inline int is_current(const struct service_of_socket *origin)
{
	struct service_key key = {
		.address = origin->address,
		.port = origin->port,
		.protocol = IPPROTO_UDP,
	};
	struct service *service = bpf_map_lookup_elem(&services, &key);

	if (!service) {
		// One that takes any port.
		key.port = 0;
		service = bpf_map_lookup_elem(&services, &key);
	}
	return service && service->id == origin->service;
}

SEC("cgroup/recvmsg4")
int recvmsg4(struct bpf_sock_addr *ctx)
{
	struct backend_of_socket key = {
		.cookie = bpf_get_socket_cookie(ctx),
		.address = ctx->user_ip4,
		.port = ctx->user_port,
	};
	struct service_of_socket *origin = bpf_map_lookup_elem(&reverse, &key);

	if (!origin)
		return finish(NOT_A_SERVICE);
	if (!is_current(origin)) {
		bpf_map_delete_elem(&reverse, &key);
		return finish(STALE);
	}
	ctx->user_ip4 = origin->address;
	ctx->user_port = origin->port;
	return finish(TRANSLATED);
}

char _license[] SEC("license") = "Dual MIT/GPL";

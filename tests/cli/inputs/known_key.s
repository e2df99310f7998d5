.map counts type=array key=4 value=4 entries=1 fd=4

.func main
.hook socket_filter
    *(u32 *)(r10 - 4) = 0
    *(u32 *)(r10 - 8) = 1
    r2 = r10
    r2 += -4
    r1 = map[counts] ll
    call bpf_map_lookup_elem
    if r0 == 0 goto insert
    r1 = *(u32 *)(r0 + 0)
    r1 += 1
    *(u32 *)(r0 + 0) = r1
    goto out
insert:
    r2 = r10
    r2 += -4
    r3 = r10
    r3 += -8
    r4 = 1
    r1 = map[counts] ll
    call bpf_map_update_elem
out:
    r0 = 0
    r0 += 0
    exit

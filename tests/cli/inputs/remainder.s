.map values type=array key=4 value=8 entries=1 fd=4

.func main
.hook socket_filter
    *(u32 *)(r10 - 4) = 0
    r1 = map[values] ll
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto out
    r6 = r0
    call bpf_get_prandom_u32
    r0 %= 6
    if r0 > 5 goto out
    r6 += r0
    r0 = *(u8 *)(r6 + 0)
    r0 += 0
    exit
out:
    r0 = 0
    exit

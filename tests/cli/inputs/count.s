.map counts type=array key=4 value=8 entries=4
.hook xdp
r2 = *(u32 *)(r1 + 0)
r0 = *(u8 *)(r2 + 0)
*(u32 *)(r10 - 4) = r0
r2 = r10
r2 += -4
r1 = map[counts] ll
call bpf_map_lookup_elem
if r0 == 0x0 goto out
r1 = 1
lock *(u64 *)(r0 + 0) += r1
out:
r0 = 2
exit

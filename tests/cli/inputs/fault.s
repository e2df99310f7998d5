.hook xdp
r0 = *(u32 *)(r1 + 0)
r0 = *(u8 *)(r0 + 100)
exit

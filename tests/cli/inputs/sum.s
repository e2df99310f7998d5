.hook buffer=2
r0 = *(u8 *)(r1 + 0)
r2 = *(u8 *)(r1 + 1)
r0 += r2
exit

.func main
.hook socket_filter
    *(u64 *)(r10 - 16) = 0
    *(u32 *)(r10 - 8) = 7
    r1 = r10
    r1 += -12
    call sum
    r0 += 0
    exit

.func sum
.local
    r2 = *(u32 *)(r1 + 0)
    r3 = *(u32 *)(r1 + 4)
    r3 <<= 32
    r2 |= r3
    r0 = r2
    exit

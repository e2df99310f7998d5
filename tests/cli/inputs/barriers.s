.map known type=hash key=4 value=8 entries=16 fd=4
.map arena type=33 key=0 value=0 entries=1 fd=5

.func main
.hook tracepoint
    r1 = map[arena] ll
    r2 = 0
    r3 = 0
    r4 = 0
    r5 = 0
    call bpf_find_vma
    r1 = map[arena] ll
    call sub
    r1 = map[known] ll
    r2 = r10
    r2 += -4
    *(u32 *)(r10 - 4) = 0
    call bpf_map_delete_elem
    r0 = 0
    exit

.func sub
.local
    r2 = 0
    r3 = 0
    r4 = 0
    r5 = 0
    call bpf_find_vma
    r0 = 0
    exit

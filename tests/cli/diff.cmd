kara diff inputs/k2/bpf/before.bpf inputs/k2/bpf/after.bpf -U 1

kara stat inputs/k2/bpf/before.bpf inputs/k2/bpf/after.bpf --no-kernel

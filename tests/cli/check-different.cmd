kara check inputs/k2/bpf/before.bpf inputs/k2/bpf/after.bpf
They do not do the same.

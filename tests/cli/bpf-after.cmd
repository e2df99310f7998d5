kara opt inputs/k2/bpf/after.bpf -o - --kernel none -q

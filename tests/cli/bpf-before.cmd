kara opt inputs/k2/bpf/before.bpf -o - --kernel none -q

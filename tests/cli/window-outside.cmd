kara opt inputs/k2/parameters/benchmark.bpf -o out.bpf --window 4:50 --kernel none

kara opt inputs/k2/parameters/benchmark.bpf -o out.bpf --window 4:5 --kernel none -q && kara stat inputs/k2/parameters/benchmark.bpf out.bpf --no-kernel

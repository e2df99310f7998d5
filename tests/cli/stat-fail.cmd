kara stat inputs/k2/hello/benchmark.k2 inputs/k2/k2/before.k2 --no-kernel --fail-on prog_size>10%

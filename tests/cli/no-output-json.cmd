kara opt inputs/k2/hello/benchmark.k2 --json

kara opt inputs/k2/hello/benchmark.k2 -o nowhere/out.k2

kara opt inputs/k2/hello/benchmark.k2 -o out.o --kernel none

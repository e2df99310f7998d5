kara opt inputs/k2/hello/benchmark.k2 -o out.k2 --kernel none --json && cat out.k2
The report on stdout, the result in its file.

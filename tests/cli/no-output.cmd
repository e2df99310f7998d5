kara opt inputs/k2/hello/benchmark.k2
A missing -o is an error, never silence.

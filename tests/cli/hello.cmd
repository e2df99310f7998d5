kara opt inputs/k2/hello/benchmark.k2 -o - --kernel none
Three slots become two.

kara stat inputs/k2/k2/before.k2 cli/sum.s -o csv --no-kernel

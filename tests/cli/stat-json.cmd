kara stat cli/sum.s --json --no-kernel

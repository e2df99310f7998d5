kara run cli/count.s --input hex:01 --map other=00:00

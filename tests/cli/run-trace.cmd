kara run cli/sum.s --input hex:0102 --trace

kara run cli/count.s --input hex:0102 --json

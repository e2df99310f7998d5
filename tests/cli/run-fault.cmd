kara run cli/fault.s --input hex:0102

kara run cli/count.s --input hex:0102030405060708090a0b0c0d0e --input hex:0108 --map counts=01000000:0500000000000000
Map contents stay from run to run.

kara asm cli/sum.s -o out.dat

kara asm cli/sum.s -o - -f k2

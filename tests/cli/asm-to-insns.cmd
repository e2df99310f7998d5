kara asm cli/sum.s -o sum.insns && kara print sum.insns

kara check cli/sum.s

echo nonsense >x.proof && kara check cli/sum.s --original cli/sum.s --proof x.proof

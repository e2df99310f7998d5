kara check cli/sum.s cli/sum.s --solver /no/such/solver

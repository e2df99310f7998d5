kara print cli/sum.s --json

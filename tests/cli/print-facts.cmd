kara print cli/sum.s --facts

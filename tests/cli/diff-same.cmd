kara diff cli/sum.s cli/sum.s --exit-code

kara opt cli/sum.s -o out.s --kernel none --cache cli/sum.s

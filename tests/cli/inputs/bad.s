r0 = 0
frob r1, r2
exit

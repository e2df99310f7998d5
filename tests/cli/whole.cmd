clang-19 -O2 -g -target bpf -c cli/parts.c -o parts.o && kara opt parts.o -o out.o --kernel none -q && kara check out.o --original parts.o -q && kara print out.o -q | grep "^.func\|    call" && kara opt parts.o -o kept.o --kernel none -q --skip-rule inline --skip-rule remove && kara print kept.o -q | grep "^.func\|    call" && sed -n "4,6p" out.o.proof
A function that is called once is in place of the call, one that nobody calls is gone, one that others may call stays.
needs clang-19

clang-19 -O2 -g -target bpf -c cli/drop.c -o drop.o && kara opt drop.o -o out.o --kernel none -q && kara check drop.o out.o -q && kara print out.o --prog keep
The certificate is about the whole object.
needs clang-19

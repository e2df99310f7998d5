clang-19 -O2 -g -target bpf -c cli/drop.c -o drop.o && kara opt -O0 drop.o -o out.o --kernel none -q && cmp drop.o out.o
Byte for byte the same.
needs clang-19

clang-19 -O2 -g -target bpf -c cli/drop.c -o drop.o && kara opt drop.o -o out.o --prog socket --kernel none -q && kara diff drop.o out.o | grep "^---"
needs clang-19

clang-19 -O2 -g -target bpf -c cli/settings.c -o s.o && kara opt s.o -o out.o --constant-data --kernel none -q && kara check s.o out.o --solver built-in | sed 's/,[^,]*$//' && kara print out.o
Read-only data counts as constant only where that is asked for, and the check says so.
needs clang-19

kara opt cli/aya_filter.o -o out.o -O0 --kernel none -q && cmp cli/aya_filter.o out.o
An object of aya's linker is byte for byte the same without optimization.

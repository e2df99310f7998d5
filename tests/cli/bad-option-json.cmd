kara opt --frobnicate x.o -o out.o --json

kara opt missing.o -o out.o --json

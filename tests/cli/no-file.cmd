kara opt missing.o -o out.o; test ! -e out.o || echo "there is an output"

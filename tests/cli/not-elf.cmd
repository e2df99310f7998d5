echo exit >x.o && kara opt x.o -o out.o

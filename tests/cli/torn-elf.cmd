printf '\177ELF\002\001\001' >torn.o && kara opt torn.o -o out.o

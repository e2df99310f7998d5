kara ext load none.o --interface lo --frequency 0
clocks that never tick are refused before anything is attached

kara opt cli/barriers.s -o - --kernel none -O0 >/dev/null
What is only known in outline is always said, with all functions of the program.

kara opt cli/barriers.s -o out.s --kernel none -O0 --json | grep -o '"barriers":{[^}]*}'

kara opt inputs/k2/k2/after.k2 -o - --kernel none -q

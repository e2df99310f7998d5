kara opt inputs/k2/k2/before.k2 -o - --kernel none -q

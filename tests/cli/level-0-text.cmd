kara opt -O0 inputs/k2/k2/before.k2 -o out.k2 --kernel none -q && cmp out.k2 inputs/k2/k2/before.k2
Nothing is changed, not even the layout of the text.

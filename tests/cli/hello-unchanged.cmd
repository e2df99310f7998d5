printf "EXIT\n" >a.k2 && kara opt a.k2 -o b.k2 --kernel none -q && cmp a.k2 b.k2 && ls
Nothing to gain: the same text, and a certificate that lists nothing.

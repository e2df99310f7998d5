kara opt cli/sum.s -o a.s --kernel none -q --cache w.db && kara opt cli/sum.s -o b.s --kernel none -q --cache w.db && cmp a.s b.s && kara cache merge v.db w.db -q && kara cache stats v.db | head -2

cat inputs/k2/hello/benchmark.k2 | kara opt - -o - -t --kernel none -q
Text on stdin is recognized.

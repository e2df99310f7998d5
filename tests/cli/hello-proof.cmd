kara opt inputs/k2/hello/benchmark.k2 -o out.k2 --kernel none -q && kara check out.k2 --original inputs/k2/hello/benchmark.k2 -q && echo equal
The certificate is found beside the result.

kara opt inputs/k2/hello/benchmark.k2 -o out.k2 --kernel none -q && kara check inputs/k2/k2/before.k2 --original inputs/k2/hello/benchmark.k2 --proof out.k2.proof --json | grep -o "the certificate is about .*program"
A certificate is about two programs only.

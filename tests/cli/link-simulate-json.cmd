kara link simulate --loss 1e-2 --frames 200000 --line 25G --buffers ring --mode non-blocking --seed 7 --json --quiet

kara link simulate --loss 1e-2 --frames 200000 --quiet

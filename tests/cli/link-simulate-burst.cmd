kara link simulate --loss 1e-3 --burst 0.5

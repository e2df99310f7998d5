kara link simulate --protocol go-back-n --loss 1e-2 --frames 100000 --quiet

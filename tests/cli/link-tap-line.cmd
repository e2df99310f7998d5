kara link protect --line tap:kara9 --inside tap:kara8

kara link protect --line nosuch0 --inside tap:kara9 --socket /tmp/kara-no-such.sock

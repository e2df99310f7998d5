kara lab list --experiments cli/experiments && kara lab list --experiments cli/experiments --json

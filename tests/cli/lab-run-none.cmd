kara lab run nothing --experiments cli/experiments

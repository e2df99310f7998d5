kara run cli/count.s --input cli/count.toml --coverage -v
A scenario: map contents, packets, what must come back, and what the runs covered.

kara run cli/count.s --input cli/count-wrong.toml
A run that returns something else than its scenario expects makes the answer no.

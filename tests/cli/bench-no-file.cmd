kara bench cli/count.s cli/count.s --input missing.toml

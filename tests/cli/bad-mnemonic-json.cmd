kara opt cli/bad.s -o out.s --json

kara opt cli/bad.s -o out.s
The line is named and quoted.

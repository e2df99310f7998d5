cp -r cli/results r && kara lab report r && cat r/echo-rate.csv r/README.md && ls r && kara lab report r --json
Verdicts, tables and figures are made from the results alone.

kara rules prove cli/wrong.rule --json

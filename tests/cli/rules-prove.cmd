kara rules prove cli/right.rule

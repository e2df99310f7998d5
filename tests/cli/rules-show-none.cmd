kara rules show nothing/here

kara cache stats nothing.db

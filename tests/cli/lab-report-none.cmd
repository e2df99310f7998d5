mkdir r && kara lab report r

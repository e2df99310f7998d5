kara --version

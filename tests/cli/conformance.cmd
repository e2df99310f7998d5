echo "b7 00 00 00 2a 00 00 00 95 00 00 00 00 00 00 00" | kara conformance-plugin

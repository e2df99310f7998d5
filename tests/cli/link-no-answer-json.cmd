kara link trace --json --socket /nonexistent/link.sock

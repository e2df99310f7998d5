kara link status --socket /nonexistent/link.sock

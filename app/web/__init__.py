"""Between a socket and the app: listening, login, checks of hosts and origins, page policy."""

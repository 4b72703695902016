"""Tools by the Model Context Protocol: servers that the user added, their tools, and calls of them."""

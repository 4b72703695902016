"""How Pip is made: its recipe and corpora, its exam, and the prompts that Foretoken ships."""

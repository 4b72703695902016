"""The app on top of the engine: pages, OpenAI-compatible server and command line."""

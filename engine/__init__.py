"""The engine: tokens in, tokens out, faster. Knows no HTTP, no Gradio, no HTML."""

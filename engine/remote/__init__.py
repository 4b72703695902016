"""Servers as an ``engine.api.Engine``: vLLM, SGLang, TensorRT-LLM, Dynamo, llama-server, Ollama, LM
Studio, another Foretoken, and whatever else speaks OpenAI's protocol."""

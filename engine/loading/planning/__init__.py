"""How a pair would be loaded, decided from headers: format, backend, context, memory."""

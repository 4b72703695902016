"""``/v1/embeddings`` and ``/v1/rerank``, for models that are made for them."""

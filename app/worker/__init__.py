"""The loaded pair as a worker behind NVIDIA Dynamo's frontend (``foretoken worker --dynamo``).

The frontend tokenizes, routes, and formats replies; the worker gets token ids and returns token ids. Only
``dynamo`` imports Dynamo's packages.
"""

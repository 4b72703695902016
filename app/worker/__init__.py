"""What is loaded here as a worker of somebody else's frontend: a face beside the API and the pages.

Dynamo's frontend tokenizes, routes and words replies; the engine behind ``foretoken worker --dynamo``
gets tokens and gives tokens. ``dynamo`` alone imports Dynamo's packages; the rest is plain values.
"""

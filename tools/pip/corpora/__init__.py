"""Training data for Pip: seeded generators of chat examples and the checks that grade replies.

Each skill has a `generate(rng, held_out)`: records, rewrites, problems, tales, talk and, given its topics, guide.
`mixture` draws from all of them. What texts are made of stands in words, source_texts and the YAML files beside the
modules; how people ask stands in `wordings`.
"""

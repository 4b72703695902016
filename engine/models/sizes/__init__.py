"""How many weights models and heads have, by a model's description."""

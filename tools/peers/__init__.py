"""Scripts that install other engines, and a converter of models, for ``foretoken bench real``."""

"""Other engines as programs of the contest, each with all the settings that may be its fastest."""

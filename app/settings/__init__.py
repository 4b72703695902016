"""Settings that outlive a run, each in a JSON file of the data folder."""

"""Settings that outlive a run, in JSON files of the data folder."""

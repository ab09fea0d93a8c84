"""Where the parts of a store are, how large their files, and what its last writer said of it."""

"""StoreConfig and its loaders: defaults, broker.conf, environment, command line."""

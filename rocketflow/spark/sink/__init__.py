"""Write rows into a store, each batch once."""

"""The directories of a store's files, and the sizes of these files."""

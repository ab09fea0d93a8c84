"""Where the parts of a store are, and with which sizes its files were made."""

"""Write the units and index entries of appended records."""

"""What source, sink and jobs share."""

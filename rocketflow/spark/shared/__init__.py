"""Parts that source, sink and jobs share."""

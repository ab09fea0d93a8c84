"""Files of one size, one behind another: read through maps, made ahead of need, on one disk or several."""

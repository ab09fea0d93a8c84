"""What all parts of the store speak of: messages, names, ids, statuses, results, errors, the clock."""

"""Types that all parts of the store use: messages, names, ids, statuses, results, errors, the clock."""

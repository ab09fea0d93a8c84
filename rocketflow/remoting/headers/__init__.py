"""Headers of requests and answers, by subject; `header` has what they share."""

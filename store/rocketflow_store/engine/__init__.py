"""What a writing store does in the background: flush, retention."""

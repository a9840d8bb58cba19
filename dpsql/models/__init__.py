"""What is released: stored models, how they score, what they learned, how they are exported and evaluated."""

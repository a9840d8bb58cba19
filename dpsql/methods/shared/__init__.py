"""What several methods share: leaves with noisy counts, greedy growth, pseudo labels."""

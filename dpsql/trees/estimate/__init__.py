"""What is read off noisy counts: means, shares, confidences, profiles. Post-processing, without private rows."""

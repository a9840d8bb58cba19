"""The method `mrf`: trees over common cells, counted by a matrix strategy (Tajima et al. 2025)."""

"""Workloads of counts over public cells, and strategies: questions from which all of a workload follows."""

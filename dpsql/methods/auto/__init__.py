"""The method `auto`, the default: marginals, guided trees, and a private choice between their mixtures."""

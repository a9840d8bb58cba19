"""Where the domains of a drafted schema come from: a proposal for each column, the sources of proposals, the writer."""

"""dpsql: differentially private decision forests, trained inside your database."""

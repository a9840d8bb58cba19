"""What commands print: tables that fit a terminal, JSON, notes, figures and next steps."""

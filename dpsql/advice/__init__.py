"""What an epsilon would buy, said before anything is spent."""

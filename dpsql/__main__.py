"""`python -m dpsql` is the command `dpsql`."""

from dpsql.cli.main import main

if __name__ == "__main__":
    main()

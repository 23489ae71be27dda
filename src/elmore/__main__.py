"""`python -m elmore` is the command line."""

from elmore.cli import main

if __name__ == "__main__":
    main()

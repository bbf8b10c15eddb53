"""`python -m leastnoise`, for shells that do not find the command itself."""

from leastnoise.app.cli.main import main

if __name__ == "__main__":
    main()

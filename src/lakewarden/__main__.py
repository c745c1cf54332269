"""`python -m lakewarden`: the command line."""

from lakewarden.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())

"""Run the command line as `python -m rocketflow`."""

from rocketflow.cli import main

if __name__ == "__main__":
    main()

"""Run the command line as `python -m zishu`, which is how `torchrun` and `accelerate launch` start it."""

from zishu.cli import main

if __name__ == "__main__":
    main()

"""`python -m engine.train RECIPE --data FOLDER --out FOLDER`."""

from engine.train.run import main

if __name__ == "__main__":
    raise SystemExit(main())

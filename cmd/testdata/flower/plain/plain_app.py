"""The code by which hosts know the app: they refuse a run whose code is other than theirs."""

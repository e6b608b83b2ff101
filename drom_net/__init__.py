"""Online multi-task learning across sites that keep their own data."""

__version__ = "0.1.0"

"""Answer a batch of counting queries about people with the least noise privacy allows."""

__version__ = "0.1.0"

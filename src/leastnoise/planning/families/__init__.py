"""Families of strategies, one file each, and what several of them share."""

"""app"""

from leastnoise.app.population import draw_people, write_people
from leastnoise.app.sql import queries_from_sql

__all__ = ["draw_people", "queries_from_sql", "write_people"]

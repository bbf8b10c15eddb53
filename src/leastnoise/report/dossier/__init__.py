"""The dossier: a folder of files that a publication needs beside its page.

facts.py          what a release claims, as every file of the dossier states it
csv_metadata.py   the descriptor of the answers' CSV file (CSV on the Web)
sdmx.py           the answers as SDMX-CSV
registry.py       the entry for OpenDP's registry of deployments, as YAML
claims.py         the claims page, by the factors of NIST SP 800-226
writing.py        `write_dossier`: all of them, and what a person must complete
"""

from leastnoise.report.dossier.writing import Dossier, write_dossier

__all__ = ["Dossier", "write_dossier"]

#!/bin/sh
# Publish a table once a day: nightly.sh SPEC TABLE DAY
#   LEDGER      the shared ledger, as postgresql://USER@HOST/DATABASE?ledger=NAME, or a file
#   LEASTNOISE  the program, if it is not on the path
# The day is the release id. Run again for the same day, it hands out the stored answers and spends nothing.
set -eu
spec=$1 table=$2 day=$3
exec ${LEASTNOISE:-leastnoise} publish "$spec" --data "$table" \
  --ledger "${LEDGER:?name the ledger}" --release-id "night $day" \
  --out "answers-$day.csv" --force --quiet --log publish.jsonl

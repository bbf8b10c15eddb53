#!/bin/sh
# Measure a plan that a person has approved: approve.sh SPEC PLAN TABLE DIGEST
# The digest comes from whoever approved the plan, as a line of a reviewed file or a signed mail; never from the plan itself.
set -eu
exec ${LEASTNOISE:-leastnoise} publish "$1" --plan "$2" --data "$3" --approved "$4" --quiet

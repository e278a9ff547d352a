#!/usr/bin/env bash
# The reference table of the statistics is what SciPy says; the unit tests hold the code against it.
. "$1/tests/support/cli.sh"
python=${QB_PYTHON:-python3}
"$python" -c 'import scipy' 2>/dev/null || skip "$python has no scipy"
expect 0 "$python" "$1/tests/unit/eval/make_stats_reference.py" --check
done_testing

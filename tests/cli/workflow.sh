#!/usr/bin/env bash
# The workflow of docs/guides/ci.md does what it says: its steps are run as a runner would run them, in order, in a
# repository of their own, with a gate that holds and with one that does not. Packages are installed by a stand-in.
# ctest-timeout: 200, ctest-cost: 10, ctest-labels: plain
. "$1/tests/support/cli.sh"
command -v python3 >/dev/null || skip "no python3"

demo 5 20
mkdir -p repository/data bin
cp demo/model.onnx demo/model.json repository/
cp -r demo/calib repository/data/calib
cp -r demo/test repository/data/val
cat >repository/qbench.yaml <<'YAML'
model: model.onnx
data:
  calibration: data/calib
  evaluation: data/val
compare:
  duration: 0.05
gate:
  max_drop: 20
  min_samples: 100
YAML
printf '#!/bin/sh\necho "$@" >>%s/apt.txt\n' "$work" >bin/apt-get
chmod +x bin/apt-get
ln -s "$QBENCH" bin/qbench

# Runs the steps of the first ```yaml or indented block below "## GitHub Actions".
cat >runner.py <<'PY'
import os, re, subprocess, sys

text = open(sys.argv[1]).read().split("## GitHub Actions")[1].split("\n## ")[0]
lines = [line[4:] for line in text.split("\n") if line.startswith("    ")]
at = next(i for i, line in enumerate(lines) if line.strip() == "steps:")
steps, block = [], None
for line in lines[at + 1:]:
    item = re.match(r"( *)- (.*)", line)
    depth = len(line) - len(line.lstrip())
    if block is not None and depth > block:
        steps[-1]["run"] += line[block + 2:] + "\n"
        continue
    block = None
    if item:
        steps.append({})
    key = re.match(r"[ -]*(\w+): ?(.*)", line)
    assert key, f"not understood: {line!r}"
    name, value = key.groups()
    if value == "|":
        steps[-1][name], block = "", depth
    elif name in ("run", "uses", "if", "with", "name"):
        steps[-1][name] = value
assert sum("run" in step for step in steps) >= 4, steps
failed = 0
for step in steps:
    if "run" not in step:
        assert "uses" in step, step
        continue
    if failed and step.get("if") != "always()":
        print("== left out:", step["run"])
        continue
    print("==", step["run"], flush=True)
    code = subprocess.run(["bash", "-e", "-c", step["run"]]).returncode
    failed = failed or code
sys.exit(failed)
PY
export GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=$work/summary.md
runner() { (cd repository && PATH=$work/bin:$PATH python3 "$work/runner.py" "$1/docs/guides/ci.md"); }

expect 0 runner "$1"
says '^::notice title=qbench gate::'
says '^PASS'
expect 0 cat summary.md
says '^\| *precision'
says '^PASS'
[ -s repository/report.html ] || fail 'no report.html'
expect 0 cat apt.txt
says "^install .*qbench_$("$QBENCH" version | sed 's/^qbench \([^ ]*\).*/\1/')_amd64.deb"

# A gate that does not hold: the job fails, page and summary are there all the same.
sed -i 's/max_drop: .*/max_drop: -50/' repository/qbench.yaml
rm -f summary.md repository/report.html
expect 3 runner "$1"
says '^::error title=qbench gate::'
[ -s repository/report.html ] || fail 'no report.html after a gate that failed'
expect 0 cat summary.md
says '^\| *precision'
says '^FAIL: 1 of 2 checks did not hold'
done_testing

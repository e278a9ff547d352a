#!/usr/bin/env bash
# The page as a browser shows it, at three widths, light and dark: nothing is wider than the screen,
# the console has no error, text can be told from what is behind it, no text of a chart is cut or lies over another; and
# what stands on top of it.
# ctest-timeout: 300, ctest-cost: 30, ctest-labels: plain
. "$1/tests/support/cli.sh"
unset GITHUB_ACTIONS

demo 5 20
cd demo || exit 1
cp "$1/tests/golden/reports/full.json" compare.json
printf 'model: model.onnx\ngate:\n  max_drop: 1.0\n  precision: int8\n' >qbench.yaml
SOURCE_DATE_EPOCH=1795000000 expect 0 "$QBENCH" report -o report.html
cp report.html first.html
has() { grep -Eq -- "$1" report.html || fail "the page lacks: $1"; }
has '<section class="verdict PASS"><b>PASS</b> 1 of 1 checks held; the closest is int8 max-drop: 0.2 points'
sed -i 's/max_drop: 1.0/max_drop: 0.1/' qbench.yaml
expect 0 "$QBENCH" report -o report.html
has '<section class="verdict FAIL"><b>FAIL</b> .*over by 0.1'
rm qbench.yaml
expect 0 "$QBENCH" report -o report.html
has '<section class="verdict none"><b>Not judged</b>'
has '<dt>model hash</dt>'
grep -q '<title>gnuplot_plot' report.html && fail 'a tooltip says gnuplot_plot'
grep -q 'logscale x' figures/latency.gp && fail 'bars stand on a logarithmic axis'

# When and how: from the environment, so that the same run gives the same text.
SOURCE_DATE_EPOCH=1795000000 expect 0 "$QBENCH" compare fp32 int8 --data test --duration 0.05
has '<dt>measured</dt><dd>2026-11-18 1'
has '<dt>command</dt><dd>qbench compare fp32 int8 --data test --duration 0.05</dd>'
has '<dt>calibrated on</dt>'
has '<dt>row int8</dt><dd>ranges by entropy of .*, 50 samples; activations u8-affine, a weight scale for each output channel</dd>'

browser=$(command -v chromium || command -v chromium-headless-shell || command -v google-chrome) || {
    echo 'no Chromium: the page was not looked at'
    done_testing
    exit
}
# What is seen, as text at the end of the document around it: a window has at least 500 pixels, a frame any width.
cat >look.js <<'JS'
addEventListener('load', () => {
  const found = [], wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) found.push('page ' + document.documentElement.scrollWidth);
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('.scroll') || e.closest('svg') || e.closest('details:not([open])')) continue;
    const r = e.getBoundingClientRect();
    if (r.width > 0 && (r.right > wide + 1 || r.left < -1)) found.push('wide ' + e.tagName + '.' + e.className);
  }
  for (const e of document.querySelectorAll('thead th:not(:first-child)'))
    if (e.scrollWidth > e.clientWidth + 1) found.push('cut heading ' + e.textContent);
  for (const e of document.querySelectorAll('tbody th'))
    if (e.textContent.length > 6 && e.clientWidth < 60) found.push('squeezed ' + e.textContent);
  for (const e of document.querySelectorAll('.card')) if (e.offsetWidth > 500) found.push('card ' + e.offsetWidth);
  for (const svg of document.querySelectorAll('.figures svg')) {
    const edge = svg.getBoundingClientRect(), seen = [];
    for (const e of svg.querySelectorAll('text')) {
      const r = e.getBoundingClientRect(), text = e.textContent.trim();
      if (!text || r.width == 0) continue;
      if (r.left < edge.left - 1 || r.right > edge.right + 1 || r.top < edge.top - 1 || r.bottom > edge.bottom + 1)
        found.push('cut "' + text + '"');
      for (const o of seen) // lines of text have some room above and below
        if (Math.min(r.right, o.right) - Math.max(r.left, o.left) > 1 &&
            Math.min(r.bottom, o.bottom) - Math.max(r.top, o.top) > .45 * Math.min(r.height, o.height))
          found.push('over each other: "' + text + '"');
      seen.push(r);
    }
  }
  const light = c => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => (x /= 255) <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
    return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  for (const e of document.querySelectorAll('h1,h2,h3,p,td,th,dt,dd,a,b,li,summary,figcaption')) {
    let at = e, back; do back = getComputedStyle(at).backgroundColor; while (/, 0\)$/.test(back) && (at = at.parentElement));
    const a = light(getComputedStyle(e).color), b = light(at ? back : 'rgb(255,255,255)');
    if ((Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5) found.push('pale ' + e.tagName + '.' + e.className);
  }
  if (wide != innerWidth || innerWidth != +parent.name) found.push('looked at ' + wide);
  const out = parent.document.createElement('pre'); out.textContent = 'SEEN[' + [...new Set(found)].join('; ') + ']END';
  parent.document.body.append(out);
});
JS
# The record of a deep network: names that are long, a step far longer than all others.
python3 - "$1/tests/golden/reports/full.json" <<'PY'
import json, sys
record = json.load(open(sys.argv[1]))
for row in record["rows"]:
    for step in row.get("steps", []):
        step["name"] = "backbone_stage_with_a_name/" + step["name"]
    for layer in row.get("layer_errors", []):
        layer["name"] = "backbone_stage_with_a_name/" + layer["name"]
    if row["precision"] == "int8":
        row["steps"][2]["ms"] *= 40
for method in "entropy:nvidia", "moving-average":
    record["rows"].append({**record["rows"][-1], "precision": f"int8:{method}+s8-symmetric+per-tensor"})
json.dump(record, open("long.json", "w"))
PY
expect 0 "$QBENCH" report long.json -o long.html
# The axis ends at what is usual; the number of the bar that it cuts stands there.
grep -Eq "^longest = 0\\.0[0-9]+$" figures/steps.gp || fail "the longest step sets the axis: $(grep ^longest figures/steps.gp)"
grep -q 'with labels left offset' figures/steps.gp || fail 'the step that is cut is not told'
for page in report long; do
    { sed 's|</body></html>||' $page.html; echo '<script>'; cat look.js; echo '</script></body></html>'; } >looked_$page.html
done
look() { # look PAGE WIDTH SCHEME
    checks=$((checks + 1))
    echo "<body><script>window.name = '$2'</script><iframe src='looked_$1.html' style='border:0;width:$2px;height:900px'></iframe></body>" >frame.html
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
        --hide-scrollbars --allow-file-access-from-files --enable-logging=stderr --window-size=1500,1000 --blink-settings=preferredColorScheme="$3" \
        --dump-dom "file://$PWD/frame.html" >dom.html 2>console.txt || { fail "$browser at $2"; return; }
    grep -o 'SEEN\[[^]]*\]END' dom.html | grep -q 'SEEN\[\]END' ||
        fail "$1 at $2, scheme $3: $(grep -o 'SEEN\[.*\]END' dom.html | tail -n 1)"
    grep -q 'CONSOLE.*rror' console.txt && fail "$1 at $2: $(grep -m1 CONSOLE console.txt)"
}
for width in 390 900 1400; do
    for scheme in 0 1; do # dark, light
        look report $width $scheme
    done
    look long $width 1
done
done_testing

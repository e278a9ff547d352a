#!/usr/bin/env bash
# The page as a browser shows it, at three widths, light and dark: nothing is wider than the screen,
# the console has no error, text can be told from what is behind it; and what stands on top of it.
# ctest-timeout: 200, ctest-cost: 20
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
# What is seen, as text at the end of the document.
cat >look.js <<'JS'
addEventListener('load', () => {
  const found = [], wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) found.push('page ' + document.documentElement.scrollWidth);
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('.scroll') || e.closest('svg') || e.closest('details:not([open])')) continue;
    const r = e.getBoundingClientRect();
    if (r.width > 0 && (r.right > wide + 1 || r.left < -1)) found.push('wide ' + e.tagName + '.' + e.className);
  }
  for (const e of document.querySelectorAll('.card')) if (e.offsetWidth > 500) found.push('card ' + e.offsetWidth);
  const light = c => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => (x /= 255) <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
    return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  for (const e of document.querySelectorAll('h1,h2,h3,p,td,th,dt,dd,a,b,li,summary,figcaption')) {
    let at = e, back; do back = getComputedStyle(at).backgroundColor; while (/, 0\)$/.test(back) && (at = at.parentElement));
    const a = light(getComputedStyle(e).color), b = light(at ? back : 'rgb(255,255,255)');
    if ((Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5) found.push('pale ' + e.tagName + '.' + e.className);
  }
  const out = document.createElement('pre'); out.id = 'seen'; out.textContent = 'SEEN[' + [...new Set(found)].join('; ') + ']END';
  document.body.append(out);
});
JS
{ sed 's|</body></html>||' report.html; echo '<script>'; cat look.js; echo '</script></body></html>'; } >looked.html
for width in 390 900 1400; do
    for scheme in 0 1; do # dark, light
        checks=$((checks + 1))
        timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
            --enable-logging=stderr --window-size=$width,900 --blink-settings=preferredColorScheme=$scheme \
            --dump-dom "file://$PWD/looked.html" >dom.html 2>console.txt || { fail "$browser at $width"; continue; }
        grep -o 'SEEN\[[^]]*\]END' dom.html | grep -q 'SEEN\[\]END' ||
            fail "at $width, scheme $scheme: $(grep -o 'SEEN\[[^]]*\]END' dom.html | head -1)"
        grep -q 'CONSOLE.*rror' console.txt && fail "at $width: $(grep -m1 CONSOLE console.txt)"
    done
done
done_testing

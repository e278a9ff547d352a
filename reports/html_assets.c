#include "reports/html_internal.h"

const char *const qb_html_style[] = {
    ":root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--paper:#fff;--panel:#f6f8fa;"
    "--line:#d0d7de;--grid:#d8dee4;--blue:#0072b2;--orange:#b26a00;--good:#1a7f37;--bad:#cf222e}\n",
    "@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--paper:#0d1117;"
    "--panel:#161b22;--line:#30363d;--grid:#30363d;--blue:#58a6ff;--orange:#e69f00;--good:#3fb950;"
    "--bad:#ff7b72}}\n",
    "*{box-sizing:border-box}\n",
    "body{margin:0 auto;padding:1rem;max-width:1320px;background:var(--paper);color:var(--ink);"
    "font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;"
    "overflow-wrap:break-word}\n",
    "h1{font-size:1.6rem;line-height:1.2;margin:.2rem 0}h2{font-size:1.25rem;margin:2.2rem 0 .4rem;"
    "border-bottom:1px solid var(--line);padding-bottom:.2rem}h3{font-size:1.05rem;margin:1.4rem 0 "
    ".3rem}\n",
    "p{margin:.4rem 0;max-width:75ch}.soft{color:var(--soft)}a{color:var(--blue)}\n",
    "nav{margin:.6rem 0;display:flex;flex-wrap:wrap;gap:.2rem 1rem}\n",
    "code,pre{font:.875em/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}"
    "pre{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:.6rem;"
    "overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}\n",
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr));gap:"
    ".8rem;margin:.8rem 0}.card{border:1px solid var(--line);border-radius:8px;background:"
    "var(--panel);padding:.8rem 1rem}.card h3{margin:0 0 .3rem;overflow-wrap:anywhere}"
    ".card dl{display:grid;grid-template-columns:auto 1fr;gap:.1rem .8rem;margin:.3rem 0}"
    ".card dt{color:var(--soft)}.card dd{margin:0;text-align:right}\n",
    ".fix,.card "
    "code{white-space:nowrap}.line{font-size:1.1rem;max-width:none}.good{color:var(--good);font-"
    "weight:600}.bad{color:var(--bad);font-weight:600}\n",
    ".warn{border-left:4px solid var(--orange);background:var(--panel);padding:.4rem .8rem .4rem "
    "1.8rem;margin:.6rem 0;font-size:.875rem}.warn li{margin:.15rem 0}\n",
    ".scroll{overflow-x:auto;margin:.5rem 0}\n",
    "table.data{border-collapse:separate;border-spacing:0;font-size:.875rem;font-variant-numeric:"
    "tabular-nums;"
    "min-width:50%}table.data caption{text-align:left;color:var(--soft);padding-bottom:.2rem}"
    "table.data td,table.data th{padding:.25rem .5rem;border-bottom:1px solid var(--line);"
    "text-align:right;white-space:nowrap}table.data th:first-child{text-align:left;position:sticky;"
    "left:0;background:var(--paper);max-width:18rem;overflow:hidden;text-overflow:ellipsis}"
    "table.data thead th{color:var(--soft);font-weight:600;vertical-align:bottom;"
    "white-space:normal;max-width:11rem;overflow:hidden;text-overflow:ellipsis}"
    "table.data thead span{white-space:nowrap}"
    "table.data tbody th{font-weight:500}table.data tbody tr:hover td,table.data tbody tr:hover "
    "th{background:var(--panel)}"
    ".js table.data thead th{cursor:pointer}"
    "table.data th[aria-sort=ascending]::after{content:' \\25b2'}"
    "table.data th[aria-sort=descending]::after{content:' \\25bc'}\n",
    "@media (max-width:600px){body{padding:.7rem;font-size:15px}table.data "
    "th:first-child{max-width:9.5rem}table.data td,table.data th{padding:.25rem .4rem}}\n",
    "figure{margin:1rem 0;overflow-x:auto}figure svg{width:100%;min-width:560px;max-width:900px;"
    "height:auto;display:block}figcaption{color:var(--soft);font-size:.875rem}\n",
    "figure svg [fill='black']{fill:var(--ink)}figure svg [stroke='black']{stroke:var(--ink)}"
    "figure svg [color='black'],figure svg [color='gray']{color:var(--ink)}"
    "figure svg [fill='#ffffff']{fill:none}"
    "figure svg [stroke='rgb(208, 208, 208)']{stroke:var(--grid)}"
    "figure svg [stroke='rgb( 32,  32,  32)']{stroke:var(--ink)}"
    "figure svg [color='rgb( 32,  32,  32)']{color:var(--ink)}\n",
    ".shots{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));gap:.7rem;"
    "padding:0;list-style:none}.shots li{border:1px solid var(--line);border-radius:6px;padding:"
    ".5rem;font-size:.8rem;line-height:1.35;overflow-wrap:anywhere}.shots img{width:64px;height:"
    "64px;object-fit:contain;image-rendering:pixelated;display:block;margin-bottom:.3rem}\n",
    "details>summary{cursor:pointer;color:var(--blue)}dl.terms{display:grid;grid-template-columns:"
    "minmax(6rem,auto) 1fr;gap:.1rem .8rem;font-size:.875rem}dl.terms dt{color:var(--soft)}"
    "dl.terms dd{margin:0}\n",
    /* Paper comes last: it takes back what screens were given. */
    "@media print{:root{color-scheme:light;--ink:#000;--soft:#444;--paper:#fff;--panel:#fff;"
    "--line:#999;--grid:#ccc;--blue:#0072b2;--orange:#b26a00;--good:#1a7f37;--bad:#cf222e}"
    "@page{size:A4;margin:14mm 12mm}"
    "body{font-size:9.5pt;max-width:none;padding:0}nav{display:none}h1{font-size:16pt}"
    "h2{font-size:12.5pt;margin-top:1.2rem}h2,h3,summary,caption,thead{break-after:avoid}"
    "figure,.card,.shots li,.warn,tr,pre{break-inside:avoid}"
    ".cards{grid-template-columns:repeat(3,1fr)}.card{padding:.5rem .6rem;font-size:8.5pt}"
    ".scroll,figure{overflow:visible}figure svg{min-width:0;max-width:17cm}"
    "details>summary{color:var(--ink);font-weight:600;list-style:none}"
    "table.data{font-size:7pt;min-width:0}table.data thead{display:table-header-group}"
    "table.data td,table.data th{padding:.1rem .22rem;white-space:normal}"
    "table.data th:first-child{position:static;min-width:2.4cm;max-width:5.5cm;"
    "overflow-wrap:anywhere}"
    "details:not([open])::details-content{content-visibility:visible;block-size:auto}"
    ".shots{grid-template-columns:repeat(5,1fr)}}\n",
    NULL};

const char qb_html_script[] =
    "document.documentElement.classList.add('js');\n"
    "function key(row,i){var c=row.cells[i],v=c.dataset.v;"
    "return v===undefined?c.textContent:v===''?NaN:+v;}\n"
    "function sort(th){var table=th.closest('table'),body=table.tBodies[0],i=th.cellIndex,"
    "up=th.getAttribute('aria-sort')==='descending';"
    "table.querySelectorAll('th[aria-sort]').forEach(function(o){o.removeAttribute('aria-sort');});"
    "th.setAttribute('aria-sort',up?'ascending':'descending');"
    "Array.from(body.rows).sort(function(a,b){var x=key(a,i),y=key(b,i);"
    "if(typeof x==='number'&&typeof y==='number'){"
    "if(isNaN(x)||isNaN(y))return isNaN(x)-isNaN(y);return up?x-y:y-x;}"
    "return (up?1:-1)*String(x).localeCompare(String(y));})"
    ".forEach(function(r){body.appendChild(r);});}\n"
    "document.querySelectorAll('table.data thead th').forEach(function(th){th.tabIndex=0;"
    "th.addEventListener('click',function(){sort(th);});"
    "th.addEventListener('keydown',function(e){if(e.key==='Enter'||e.key===' '){"
    "e.preventDefault();sort(th);}});});\n"
    /* Paper cannot be unfolded. */
    "var closed=[];addEventListener('beforeprint',function(){"
    "closed=Array.from(document.querySelectorAll('details:not([open])'));"
    "closed.forEach(function(d){d.open=true;});});"
    "addEventListener('afterprint',function(){closed.forEach(function(d){d.open=false;});});\n";

"""The look of the page: one sheet for phone, desk, paper, light and dark.

Colours were chosen for a contrast of 4.5:1 at least between words and ground in both schemes (WCAG 2.2, 1.4.3), and the
four line colours after Okabe and Ito's palette for all kinds of colour vision; dashes and shapes say the same again.
"""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--ground:#fff;--card:#f5f6f8;--words:#1b1f24;--quiet:#57606a;--edge:#d5d9df;
--c0:#0060a8;--c1:#a84300;--c2:#00694d;--c3:#7a3e8e;--band:#0060a830;--bad:#a8071a;--good:#00694d}
@media (prefers-color-scheme:dark){:root{--ground:#14171b;--card:#1e2329;--words:#e8eaed;--quiet:#a3acb8;--edge:#39414b;
--c0:#6cb6ff;--c1:#ffa657;--c2:#4fd1a5;--c3:#d3a6ea;--band:#6cb6ff38;--bad:#ff8f8f;--good:#4fd1a5}}
*{box-sizing:border-box}
html{scroll-behavior:auto;-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:82rem;padding:1rem clamp(.75rem,3vw,2.5rem) 4rem;background:var(--ground);
color:var(--words);font:16px/1.5 system-ui,"Segoe UI","DejaVu Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0}
h2{font-size:1.3rem;line-height:1.3;margin:2.5rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--edge)}
h3{font-size:1.05rem;line-height:1.35;margin:1.25rem 0 .4rem}
p,ul,ol,dl{margin:.5rem 0}
a{color:var(--c0)}
.quiet{color:var(--quiet)}
.small{font-size:.9rem}
nav{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin:.75rem 0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,9.4rem),1fr));gap:.75rem;margin:1rem 0;padding:0}
.card{background:var(--card);border:1px solid var(--edge);border-radius:.4rem;padding:.6rem .8rem}
.card dt{font-size:.875rem;color:var(--quiet);line-height:1.35}
.card dd{margin:0;font-size:1.35rem;font-weight:650;line-height:1.3}
.card small{font-size:.9rem;font-weight:500}
.card .note{display:block;font-size:.8125rem;font-weight:400;color:var(--quiet);line-height:1.4}
.lead{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:1rem 2rem;align-items:start}
.charts{margin-top:1rem;display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,21rem),1fr));gap:1rem 1.5rem}
figure{margin:0}
figcaption{font-weight:600;font-size:.95rem;line-height:1.4;margin-bottom:.25rem}
.chart{display:block;width:100%;height:auto;max-width:34rem}
.t{font:11px/1 system-ui,"Segoe UI","DejaVu Sans",sans-serif;fill:var(--words);stroke:var(--ground);stroke-width:3px;paint-order:stroke}
.grid{stroke:var(--edge);stroke-width:.7;fill:none}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.mark{fill:none;stroke-width:1.3}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1);stroke-dasharray:6 3}
.s2{stroke:var(--c2);stroke-dasharray:2 3}.s3{stroke:var(--c3);stroke-dasharray:9 3 2 3}
.band{fill:var(--band);stroke:none}
.bar{fill:var(--c0)}
.hatch{fill:none;stroke:var(--c1);stroke-width:1.2;stroke-dasharray:2 1.5}
.glyph{stroke-width:1.4;fill:none}
.absorbed{stroke:var(--c2)}.evicted{stroke:var(--c1);fill:var(--c1)}.removed{stroke:var(--c3)}
.timeout{stroke:var(--c0);fill:var(--c0)}
.spark{width:5rem;height:1.15rem;vertical-align:middle}
table{border-collapse:collapse;width:100%;font-size:.925rem;line-height:1.4}
th,td{text-align:left;padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--edge);vertical-align:top;overflow-wrap:break-word}
td.all{overflow-wrap:anywhere}
th{font-weight:600;color:var(--quiet)}
th.n,td.n{text-align:right;font-variant-numeric:tabular-nums}
th[aria-sort]::after{content:" \\25BC";font-size:.7em}
tr.chosen td{font-weight:650}
ol.todo{padding-left:1.5rem}
ol.todo li{margin:.6rem 0}
ol.todo b,summary b{font-weight:650}
details{border:1px solid var(--edge);border-radius:.4rem;padding:.5rem .8rem;margin:.6rem 0;background:var(--ground)}
summary{cursor:pointer;line-height:1.45}
.good::before,.warning::before,.bad::before{display:inline-block;width:1.3em;font-weight:700}
.good::before{content:"\\2713";color:var(--good)}
.warning::before{content:"!";color:var(--c1)}
.bad::before{content:"\\2717";color:var(--bad)}
@media (max-width:64rem){
details{padding:.4rem .3rem;border-width:1px 0;border-radius:0}
table.fold thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table.fold,table.fold tbody{display:block}
table.fold tr{display:flex;flex-wrap:wrap;gap:0 1rem;padding:.45rem 0;border-bottom:1px solid var(--edge)}
table.fold td{display:block;border:0;padding:0;text-align:left}
table.fold td[data-name]::before{content:attr(data-name) " ";color:var(--quiet);font-weight:400}
table.fold td.all{flex:1 0 100%}
table.fold td.extra{display:none}
}
@media print{
:root{--ground:#fff;--card:#fff;--words:#000;--quiet:#333;--edge:#aaa;--c0:#004a80;--c1:#8a3700;--c2:#00523c;--c3:#5c2b6d;--band:#0060a830}
body{max-width:none;padding:0;font-size:10pt}
nav{display:none}
details{border:0;padding:0}
details::details-content{content-visibility:visible;display:block;height:auto}
figure,tr,.card{break-inside:avoid}
h2,h3,summary{break-after:avoid}
}
"""

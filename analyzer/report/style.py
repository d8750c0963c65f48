"""The page's style sheet: one set of names, two sets of colours."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--back:#f6f7f9;--card:#fff;--ink:#1b2430;--soft:#5b6777;--line:#dfe4ea;--blue:#2a6fb0;
--law:#d9822b;--good:#1f7a4d;--bad:#c0362c;--warn:#946200;--violet:#7a52b3;--trace:#9fb6cf}
@media (prefers-color-scheme:dark){:root{--back:#12161c;--card:#1b2129;--ink:#e7ecf2;--soft:#9aa7b6;--line:#303946;
--blue:#6aaeea;--law:#f0a04b;--good:#5cc48d;--bad:#f0786d;--warn:#e0b04a;--violet:#b795ea;--trace:#46607d}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:16px}
header{display:flex;gap:20px;align-items:center;background:var(--card);border:1px solid var(--line);
border-left:8px solid;border-radius:10px;padding:16px 20px}
header.PASS,header.PARTIAL{border-left-color:var(--good)}header.FAIL{border-left-color:var(--bad)}
header.UNKNOWN,header.OVERSPENT{border-left-color:var(--warn)}
.verdict{font-size:2.2rem;font-weight:800;margin:0;letter-spacing:.02em}
.check.PASS em,.check.PARTIAL em{color:var(--good)}.check.FAIL em{color:var(--bad)}
.check.UNKNOWN em,.check.OVERSPENT em{color:var(--warn)}
h1{font-size:1.25rem;margin:0}header p{margin:.2rem 0 0;color:var(--soft)}header .verdict{color:inherit}
header.PASS .verdict,header.PARTIAL .verdict{color:var(--good)}header.FAIL .verdict{color:var(--bad)}
header.UNKNOWN .verdict,header.OVERSPENT .verdict{color:var(--warn)}
h2{font-size:1.1rem;margin:28px 0 10px}h3{font-size:1rem;margin:0 0 6px}
.note{background:var(--card);border:1px solid var(--warn);border-radius:8px;padding:8px 14px;margin:12px 0 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:12px;margin:14px 0}
.tile,.card,figure,.check{background:var(--card);border:1px solid var(--line);border-radius:10px}
.tile{padding:12px 14px;display:flex;flex-direction:column}.tile b{font-size:1.5rem;line-height:1.2}
.tile span{font-size:.9rem}small,figcaption,footer{color:var(--soft);font-size:.82rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:14px}
figure{margin:0;padding:14px;min-width:0}figcaption{margin-top:6px}
svg{width:100%;height:auto;display:block}svg.square{max-width:430px;margin:0 auto}
.pixels{width:100%;max-width:430px;aspect-ratio:1;
display:block;margin:0 auto;image-rendering:pixelated;border-radius:4px}
.scale{display:flex;gap:8px;align-items:center;max-width:430px;margin:8px auto 0;font-size:.8rem;color:var(--soft)}
.scale img{flex:1;height:10px;min-width:0;border-radius:3px}
.grid{stroke:var(--line)}.axis{stroke:var(--soft)}.tick,.label{fill:var(--soft);font-size:12px;font-family:inherit}
.curve{fill:none;stroke-width:2}.curve.observed{stroke:var(--blue)}.curve.law{stroke:var(--law);stroke-dasharray:7 4}
.curve.local{stroke:var(--violet)}.curve.printed{stroke:var(--soft);stroke-dasharray:2 4}
.curve.limit{stroke:var(--bad);stroke-dasharray:5 3}.curve.mark{stroke:var(--soft);stroke-width:1}
.curve.trace{stroke:var(--trace);stroke-width:.8}
rect.observed,circle.observed{fill:var(--blue)}rect.law{fill:var(--law)}rect.local{fill:var(--violet)}
circle.fault{fill:var(--bad)}
.edge{fill:none;stroke:var(--blue)}.edge.lost{stroke:var(--bad)}.node{fill:var(--ink)}
.node.absent{fill:var(--card);stroke:var(--soft);stroke-dasharray:2 2}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:.82rem;color:var(--soft);padding-left:4px}
.swatch{display:inline-block;width:16px;height:4px;border-radius:2px;margin-right:6px;vertical-align:middle;
background:var(--soft)}
.swatch.observed{background:var(--blue)}.swatch.law{background:var(--law)}.swatch.local{background:var(--violet)}
.swatch.limit,.swatch.fault{background:var(--bad)}
.check{margin:6px 0;padding:8px 14px}
.check summary{display:grid;grid-template-columns:100px 1fr;gap:0 10px;cursor:pointer}
.check summary small{grid-column:2;overflow-wrap:anywhere}.check em{font-style:normal;font-weight:700;font-size:.85rem;
align-self:center}
.check dl{display:grid;grid-template-columns:84px 1fr;gap:2px 10px;margin:8px 0 0;font-size:.88rem}dt{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}.check ul{margin:8px 0 0;padding-left:18px;font-size:.88rem;color:var(--bad);
overflow-wrap:anywhere}.check.UNKNOWN ul{color:inherit}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(210px,1fr));gap:10px}.card{padding:10px 14px}
.card p{margin:2px 0;font-size:.86rem;color:var(--soft)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.88rem}td,th{padding:4px 12px 4px 0;text-align:left}
th{color:var(--soft);font-weight:600}footer{margin:28px 0 10px}
@media (max-width:560px){main{padding:10px}header{flex-direction:column;align-items:flex-start;gap:4px}
.verdict{font-size:1.8rem}.check summary,.check dl{grid-template-columns:74px 1fr}
.tiles{grid-template-columns:repeat(2,1fr)}}
""".replace("\n", "")

"""The page's style sheet: one set of names, two sets of colours."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--back:#f6f7f9;--card:#fff;--ink:#1b2430;--soft:#5b6777;--line:#dfe4ea;--blue:#2a6fb0;
--law:#d9822b;--good:#1f7a4d;--bad:#c0362c;--warn:#946200;--violet:#7a52b3;--trace:#9fb6cf;--strong:#bfe3cf;--medium:#f3e2ae;--weak:#f3c9bf}
@media (prefers-color-scheme:dark){:root{--back:#12161c;--card:#1b2129;--ink:#e7ecf2;--soft:#9aa7b6;--line:#303946;
--blue:#6aaeea;--law:#f0a04b;--good:#5cc48d;--bad:#f0786d;--warn:#e0b04a;--violet:#b795ea;--trace:#46607d;--strong:#1f4d37;--medium:#55461a;--weak:#5c2f28}}
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
.card,figure,.check,.panel,.pair,.fold{background:var(--card);border:1px solid var(--line);border-radius:10px}
.panel,.pair{padding:14px 18px}.panel p,.pair p{margin:0 0 8px}.soft{color:var(--soft);font-size:.9rem}
.pair{display:grid;grid-template-columns:minmax(240px,2fr) 3fr;gap:8px 24px;align-items:center}
.pair .what{color:var(--soft)}.pair .value{font-size:2.4rem;font-weight:800;line-height:1.15;overflow-wrap:anywhere}
header p.head{color:var(--ink);font-size:1.05rem;font-weight:600}
.epsilon-scale{max-width:760px;margin:6px auto 4px}.zone.strong{fill:var(--strong)}.zone.medium{fill:var(--medium)}
.zone.weak{fill:var(--weak)}.zone-name{fill:var(--ink);font-size:13px;font-family:inherit}
.epsilon-scale .first{fill:var(--ink);font-size:15px;font-weight:700;font-family:inherit}
.panel .legend{margin:4px 0 8px}
.mark.worst{fill:var(--blue)}.mark.mean{fill:var(--soft)}.mark.promise{fill:var(--law)}.mark.local{fill:var(--violet)}
small,figcaption,footer{color:var(--soft);font-size:.82rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:14px}
figure{margin:0;padding:14px;min-width:0}figcaption{margin-top:6px}section.charts{margin-top:14px}
@media (min-width:920px){.charts figure:last-child:nth-child(odd){grid-column:1/-1;display:grid;
grid-template-columns:minmax(0,560px) 1fr;gap:0 28px;align-items:center}
.charts figure:last-child:nth-child(odd) h3{grid-column:1/-1}
.charts figure:last-child:nth-child(odd) .legend{grid-column:1}
.charts figure:last-child:nth-child(odd) figcaption{grid-column:2;grid-row:2;font-size:.95rem}
.charts figure.words:last-child:nth-child(odd){display:block}}
.square{max-width:470px;margin:0 auto;width:100%}
svg{width:100%;height:auto;display:block}svg.square{max-width:430px;margin:0 auto}
.pixels{width:100%;max-width:470px;aspect-ratio:1;
display:block;margin:0 auto;image-rendering:pixelated;border-radius:4px}
.scale{display:flex;gap:8px;align-items:center;max-width:470px;margin:8px auto 0;font-size:.8rem;color:var(--soft)}
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
.legend span{display:inline-flex;align-items:center}
.swatch{display:inline-block;width:28px;height:12px;margin-right:6px;flex:none}
.curve.truth{stroke:var(--law);stroke-width:3;stroke-dasharray:5 3}.curve.whisker{stroke:var(--ink);stroke-width:2}
rect.possible{fill:var(--line)}rect.band{fill:var(--trace);opacity:.75}
.fold{margin:8px 0;padding:10px 16px}figcaption .fold{padding:6px 12px}summary{cursor:pointer}
.fold>summary{font-weight:600;color:var(--ink)}.fold[open]>summary{margin-bottom:10px}
.fold .charts{margin-top:0}pre{overflow-x:auto;font-size:.82rem;margin:0}
a{color:var(--blue)}footer p{margin:4px 0;overflow-wrap:anywhere}
.check{margin:6px 0;padding:8px 14px}
.check summary{display:grid;grid-template-columns:100px 1fr 16px;gap:0 10px;list-style:none}
.check summary::-webkit-details-marker{display:none}
.check summary::after{content:"";grid-column:3;grid-row:1/span 2;align-self:center;width:8px;height:8px;
border:solid var(--soft);border-width:0 2px 2px 0;transform:rotate(45deg)}
.check[open] summary::after{transform:rotate(-135deg)}
.check summary:hover span{text-decoration:underline}
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
.verdict{font-size:1.8rem}.check dl{grid-template-columns:74px 1fr}.check summary{grid-template-columns:74px 1fr 16px}
.pair{grid-template-columns:1fr}.zone-name{font-size:20px}.epsilon-scale .first{font-size:24px}
.epsilon-scale .tick{font-size:20px}figure .tick,.pair .tick,.label{font-size:15px}}
""".replace("\n", "")

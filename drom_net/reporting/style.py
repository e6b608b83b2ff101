"""How pages look: light, dark and printed, in the reader's own fonts."""

STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--soft:#575757;--paper:#fff;--line:#d4d4d4;--tint:#f4f6f8;--link:#005a9c;
--bad:#a3162e;--good:#00694b}
@media (prefers-color-scheme:dark){:root{--ink:#ececec;--soft:#b4b4b4;--paper:#141414;--line:#444;--tint:#202326;
--link:#8cc6ec;--bad:#ff9aa8;--good:#6fd6b3}
.picture svg{filter:invert(.92) hue-rotate(180deg)}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:70rem;padding:1.5rem 1.25rem 4rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:0}
h2{font-size:1.2rem;margin:2.5rem 0 .5rem;border-bottom:1px solid var(--line)}
header p{color:var(--soft);margin:.25rem 0 .75rem}p{margin:.5rem 0;max-width:48rem}
a{color:var(--link)}nav{display:flex;flex-wrap:wrap;gap:.25rem 1rem;font-size:.9rem}
.answer{font-size:1.2rem;line-height:1.4;font-weight:600}.bad{color:var(--bad)}.note{color:var(--soft);font-size:.9rem}
.effects{list-style:none;padding:0;margin:.5rem 0}
.effects li{margin:.15rem 0}.effects span{display:inline-block;width:1.2em}
.wide,figure{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem;overflow-wrap:normal}
caption{text-align:left;color:var(--soft);padding:.25rem 0}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}
thead th{background:var(--tint)}th:first-child{text-align:left;font-weight:600;white-space:normal;min-width:7rem;
max-width:20rem;overflow-wrap:anywhere}#repeat td,#faults td{text-align:left;white-space:normal;overflow-wrap:anywhere}
.sum th,.sum td{border-top:2px solid var(--soft);font-weight:600}
pre{background:var(--tint);padding:.75rem;white-space:pre-wrap}
code{font-family:ui-monospace,"DejaVu Sans Mono",monospace}
.picture svg{display:block;max-width:100%;height:auto}
figcaption{color:var(--soft);font-size:.9rem;margin-top:.25rem}summary{cursor:pointer;color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
@media print{:root{--ink:#000;--soft:#444;--paper:#fff;--line:#bbb;--tint:#f4f4f4;--bad:#a3162e;--good:#00694b}
.picture svg{filter:none;min-width:0!important}nav{display:none}body{max-width:none;padding:0;font-size:10pt}
.wide,figure{overflow:visible}table{font-size:8pt}th,td{padding:.1rem .3rem}
figure,tr{break-inside:avoid}h2{break-after:avoid}}
"""

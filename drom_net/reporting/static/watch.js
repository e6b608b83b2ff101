// All that is shown comes as text, never as markup.
'use strict';
const at = id => document.getElementById(id);
const percent = x => x == null ? '–' : (100 * x).toFixed(2) + ' %';
const size = b => {for (const u of ['B','kB','MB','GB']) {if (b < 1000) return (u === 'B' ? b : b.toFixed(1)) + ' ' + u; b /= 1000;}
  return b.toFixed(1) + ' TB';};
const SVG = 'http://www.w3.org/2000/svg', ROWS = 200, NAMED = 40;
const MARK = {learning: '●', waits: '…', gone: '✕', ended: '■', starting: '○'};
let last = null;
function make(kind, attributes, text) {
  const element = document.createElementNS(SVG, kind);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
const cut = (name, most) => name.length > most ? name.slice(0, most - 1) + '…' : name;
function cell(kind, text, name) {
  const element = document.createElement(kind);
  if (kind === 'th') {element.scope = 'row'; const inner = document.createElement('bdi'); inner.textContent = cut(text, 60);
    inner.title = text; element.append(inner);} else element.textContent = text;
  if (name) element.className = name;
  return element;
}
function table(tasks) {
  const wanted = at('filter').value.toLowerCase();
  const worth = {gone: 0, waits: 1, starting: 2};
  const found = tasks.filter(t => (t.name + ' ' + t.words).toLowerCase().includes(wanted));
  if (found.length > ROWS) found.sort((a, b) => (worth[a.kind] ?? 3) - (worth[b.kind] ?? 3) || a.round - b.round);
  at('rows').replaceChildren(...found.slice(0, ROWS).map(t => {
    const row = document.createElement('tr');
    row.className = t.kind;
    row.append(cell('th', t.name), cell('td', t.round), cell('td', percent(t.error)), cell('td', percent(t.majority)),
      cell('td', t.sharing || '–', 'left'), cell('td', size(t.sent)),
      cell('td', (MARK[t.kind] || '') + ' ' + t.words, 'words ' + t.kind));
    return row;
  }));
  at('more').textContent = found.length > ROWS ? 'and ' + (found.length - ROWS) + ' more; those in trouble come first' : '';
}
function curve(curves) {
  const sites = at('which').value === 'sites';
  const labels = Object.keys(curves).filter(l => l.startsWith('site ') === sites);
  const W = 460, H = 260, L = 40, B = 30, T = 10, R = 10;
  const points = labels.flatMap(l => curves[l]);
  const most = Math.max(1, ...points.map(p => p[1])), x1 = Math.max(1, ...points.map(p => p[0]));
  const y1 = [4, 8, 12, 20, 40, 60, 80].find(y => y >= most) ?? 100;
  const X = x => L + (W - L - R) * x / x1, Y = y => H - B - (H - B - T) * y / y1;
  const parts = [];
  for (let k = 0; k <= 4; k++) {
    parts.push(make('line', {x1: L, x2: W - R, y1: Y(y1 * k / 4), y2: Y(y1 * k / 4), class: 'grid'}),
      make('text', {x: L - 4, y: Y(y1 * k / 4) + 4, 'text-anchor': 'end'}, (y1 * k / 4).toFixed(0) + ' %'),
      make('text', {x: X(x1 * k / 4), y: H - B + 15, 'text-anchor': k === 4 ? 'end' : 'middle'}, Math.round(x1 * k / 4)));
  }
  parts.push(make('path', {d: `M${L} ${T}V${H - B}H${W - R}`, class: 'axis'}), make('text', {x: W / 2, y: H - 2}, 'round'));
  labels.forEach((label, k) => parts.push(make('polyline', {class: `line c${k % 8} d${sites ? Math.floor(k / 8) : k % 3}`,
    points: curves[label].map(p => X(p[0]).toFixed(1) + ',' + Y(p[1]).toFixed(1)).join(' ')})));
  at('curve').replaceChildren(...parts);
  at('curve').setAttribute('aria-label', 'Error over time. Last: ' + labels.map(l =>
    l.replace(/^site /, '') + ' ' + (curves[l].at(-1) || [0, 0])[1].toFixed(1) + ' %').join(', '));
  at('key').replaceChildren(...labels.map((label, k) => {
    const item = document.createElement('li'), mark = make('svg', {viewBox: '0 0 24 8', width: 24, height: 8, class: 'mark'});
    mark.append(make('line', {x1: 0, x2: 24, y1: 4, y2: 4, class: `line c${k % 8} d${sites ? Math.floor(k / 8) : k % 3}`}));
    const text = document.createElement('bdi');
    text.textContent = cut(label.replace(/^site /, ''), 30);
    item.append(mark, ' ', text);
    return item;
  }));
}
function graph(state) {
  const tasks = state.tasks, n = tasks.length, cx = 230, cy = 160, r = n > 1 ? 125 : 0, parts = [];
  const place = k => [cx + 1.35 * r * Math.sin(2 * Math.PI * k / n), cy - r * Math.cos(2 * Math.PI * k / n)];
  const off = k => tasks[k].kind === 'gone';
  const edge = (a, b, gone) => parts.push(make('line', {x1: a[0], y1: a[1], x2: b[0], y2: b[1], class: gone ? 'edge off' : 'edge'}));
  if (state.edges) {for (const [a, b] of state.edges) if (a < n && b < n) edge(place(a), place(b), off(a) || off(b));}
  else if (state.reducer) tasks.forEach((_, k) => edge([cx, cy], place(k), off(k) || state.reducer.kind === 'gone'));
  const dot = (node, [x, y]) => {
    const g = make('g', {}), radius = n > NAMED ? 4 : 9;
    g.append(make('title', {}, node.name + ': ' + node.words), make('circle', {cx: x, cy: y, r: radius, class: 'node ' + node.kind}));
    if (n <= NAMED) g.append(make('text', {x, y: y < cy ? y - 14 : y + 22, 'text-anchor': 'middle'}, (MARK[node.kind] || '') + ' ' + cut(node.name, 14)));
    parts.push(g);
  };
  tasks.forEach((task, k) => dot(task, place(k)));
  if (state.reducer) dot(state.reducer, [cx, cy]);
  at('graph').replaceChildren(...parts);
  const told = [...tasks, ...(state.reducer ? [state.reducer] : [])].filter(t => t.kind === 'gone' || t.kind === 'waits');
  at('graph').setAttribute('aria-label', (state.edges ? 'A graph of ' : 'A star of ') + n + ' sites. ' +
    (told.slice(0, 20).map(t => t.name + ': ' + t.words).join('; ') || 'None is gone.'));
}
function show(state) {
  last = state;
  at('name').textContent = state.name || 'drom-net watch';
  document.title = state.status + ': ' + (state.name || 'drom-net watch');
  const limit = state.rounds_limit ? '/' + state.rounds_limit : '';
  at('status').textContent = `${state.status}: round ${state.rounds ?? 0}${limit}, errors ${percent(state.error_rate)}` +
    ` (majority ${percent(state.majority_error_rate)})` + (state.verdict && state.verdict.length ? '. ' + state.verdict[0] : '');
  const gone = [...state.tasks, ...(state.reducer ? [state.reducer] : [])].filter(t => t.kind === 'gone');
  at('trouble').textContent = (state.error ? state.error + ' ' : '') +
    (gone.length ? gone.length + ' gone: ' + gone.slice(0, 5).map(t => t.name).join(', ') : '');
  table(state.tasks); curve(state.curves); graph(state);
  at('events').replaceChildren(...state.events.slice().reverse().map(text => {
    const item = document.createElement('li'); item.textContent = text; return item;}));
  at('leaves').textContent = state.what_leaves || '';
}
at('filter').addEventListener('input', () => last && table(last.tasks));
at('which').addEventListener('change', () => last && curve(last.curves));
const source = new EventSource('/events' + location.search);
source.onmessage = event => show(JSON.parse(event.data));
source.onerror = () => {at('trouble').textContent = 'No connection to drom-net watch: what is shown may be old.';};

// All that is shown comes as text, never as markup.
'use strict';
const at = id => document.getElementById(id);
const percent = x => x == null ? '–' : (100 * x).toFixed(2) + ' %';
const size = b => {if (b == null) return '–';
  for (const u of ['B','kB','MB','GB']) {if (b < 1000) return (u === 'B' ? b : b.toFixed(1)) + ' ' + u; b /= 1000;}
  return b.toFixed(1) + ' TB';};
const SVG = 'http://www.w3.org/2000/svg', ROWS = 200, NAMED = 40, LINES = 12, LATE = 0.2;
const MARK = {learning: '●', waits: '…', gone: '✕', ended: '■', starting: '○', elsewhere: '◌'};
let run = null, paused = false;
function make(kind, attributes, text) {
  const element = document.createElementNS(SVG, kind);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
const cut = (name, most) => name.length > most ? name.slice(0, most - 1) + '…' : name;
const say = (id, text) => {if (at(id).textContent !== text) at(id).textContent = text;};
const kindOf = k => (run.states[k] || ['learning', 'learning'])[0];
const wordsOf = k => (run.states[k] || ['learning', 'learning'])[1];
const rate = (m, key, k) => m.examples[k] ? m[key][k] / m.examples[k] : null;
// Of the examples between two moments, the share that was wrong.
const between = (a, b, k) => {const n = b.examples[k] - (a ? a.examples[k] || 0 : 0);
  return n > 0 ? (b.errors[k] - (a ? a.errors[k] || 0 : 0)) / n : null;};
function late(k) {
  const before = run.moments.filter(m => m.examples[k] <= (1 - LATE) * run.moment.examples[k]);
  return between(before.at(-1), run.moment, k);
}
function found() {
  const wanted = at('filter').value.toLowerCase(), all = run.roster.names.map((_, k) => k);
  return wanted ? all.filter(k => (run.roster.names[k] + ' ' + wordsOf(k)).toLowerCase().includes(wanted)) : all;
}
function table(sites) {
  if (sites.length > ROWS) sites = sites.slice().sort((a, b) => (run.roster.worth[kindOf(a)] ?? 3) -
    (run.roster.worth[kindOf(b)] ?? 3) || run.moment.round[a] - run.moment.round[b]);
  const rows = at('rows'), now = run.moment;
  while (rows.children.length > Math.min(ROWS, sites.length)) rows.lastChild.remove();
  sites.slice(0, ROWS).forEach((k, place) => {
    let row = rows.children[place];
    if (!row) {
      row = rows.appendChild(document.createElement('tr'));
      const head = row.appendChild(document.createElement('th'));
      head.scope = 'row'; head.append(document.createElement('bdi'));
      for (const name of ['', '', '', '', 'left', '', '', 'words']) row.appendChild(document.createElement('td')).className = name;
    }
    const name = run.roster.names[k], kind = kindOf(k), cells = row.children;
    const texts = [cut(name, 60), now.round[k], percent(rate(now, 'errors', k)), percent(late(k)),
      percent(rate(now, 'majority_errors', k)), (now.told && now.told[k]) || '–', now.noise ? percent(now.noise[k]) : '–', size(now.bytes_sent[k]),
      (MARK[kind] || '') + ' ' + wordsOf(k)];
    texts.forEach((text, n) => {const cell = n ? cells[n] : cells[0].firstChild;
      if (cell.textContent !== String(text)) cell.textContent = text;});
    cells[0].firstChild.title = name; row.className = kind; cells[8].className = 'words ' + kind;
  });
  say('more', sites.length > ROWS ? 'and ' + (sites.length - ROWS) + ' more; those in trouble come first' : '');
}
const sum = list => list.reduce((a, b) => a + (b || 0), 0);
function lines(sites) {
  if (at('which').value === 'sites') return sites.slice(0, LINES).map(k => [run.roster.names[k],
    run.moments.map(m => [m.rounds, rate(m, 'errors', k)])]);
  const of = key => run.moments.map(m => [m.rounds, sum(m.examples) ? sum(m[key]) / sum(m.examples) : null]);
  return [['all', of('errors')], ['majority', of('majority_errors')]];
}
function curve(sites) {
  const curves = lines(sites).map(([label, points]) => [label, points.filter(p => p[1] != null)]);
  const W = 460, H = 260, L = 40, B = 30, T = 10, R = 10, parts = [];
  const points = curves.flatMap(c => c[1]), most = Math.max(1, ...points.map(p => 100 * p[1]));
  const x1 = Math.max(1, ...points.map(p => p[0])), y1 = [4, 8, 12, 20, 40, 60, 80].find(y => y >= most) ?? 100;
  const X = x => L + (W - L - R) * x / x1, Y = y => H - B - (H - B - T) * y / y1;
  for (let k = 0; k <= 4; k++) {
    parts.push(make('line', {x1: L, x2: W - R, y1: Y(y1 * k / 4), y2: Y(y1 * k / 4), class: 'grid'}),
      make('text', {x: L - 4, y: Y(y1 * k / 4) + 4, 'text-anchor': 'end'}, (y1 * k / 4).toFixed(0) + ' %'),
      make('text', {x: X(x1 * k / 4), y: H - B + 15, 'text-anchor': k === 4 ? 'end' : 'middle'}, Math.round(x1 * k / 4)));
  }
  parts.push(make('path', {d: `M${L} ${T}V${H - B}H${W - R}`, class: 'axis'}), make('text', {x: W / 2, y: H - 2}, 'round'));
  const look = k => `line c${k % 8} d${curves.length > 2 ? Math.floor(k / 8) : k % 3}`;
  curves.forEach(([, its], k) => parts.push(make('polyline', {class: look(k),
    points: its.map(p => X(p[0]).toFixed(1) + ',' + Y(100 * p[1]).toFixed(1)).join(' ')})));
  at('curve').replaceChildren(...parts);
  at('curve').setAttribute('aria-label', 'Error over time. Last: ' + curves.map(([label, its]) =>
    label + ' ' + percent((its.at(-1) || [0, null])[1])).join(', '));
  const labels = curves.map(c => c[0]).join('\n');
  if (at('key').dataset.labels === labels) return;
  at('key').dataset.labels = labels;
  at('key').replaceChildren(...curves.map(([label], k) => {
    const item = document.createElement('li'), mark = make('svg', {viewBox: '0 0 24 8', width: 24, height: 8, class: 'mark'});
    mark.append(make('line', {x1: 0, x2: 24, y1: 4, y2: 4, class: look(k)}));
    const text = document.createElement('bdi');
    text.textContent = cut(label, 30);
    item.append(mark, ' ', text);
    return item;
  }));
}
let drawn = null;
function graph() {
  const names = run.roster.names, n = names.length, many = n > NAMED;
  if (!drawn || drawn.roster !== run.roster || drawn.star !== !!run.reducer) {
    const cx = 230, cy = 160, r = n > 1 ? 125 : 0, edges = [], dots = [];
    const place = k => k < 0 ? [cx, cy] : [cx + 1.35 * r * Math.sin(2 * Math.PI * k / n), cy - r * Math.cos(2 * Math.PI * k / n)];
    const told = run.roster.edges, tooMany = typeof told === 'number';
    const pairs = tooMany ? [] : told || (run.reducer ? names.map((_, k) => [-1, k]) : []);
    say('links', tooMany ? `${told.toLocaleString('en')} edges are too many to draw: none is shown.` : '');
    for (const [a, b] of pairs) if (a < n && b < n) {
      const [x1, y1] = place(a), [x2, y2] = place(b);
      edges.push([a, b, make('line', {x1, y1, x2, y2, class: 'edge'})]);
    }
    for (let k = run.reducer ? -1 : 0; k < n; k++) {
      const [x, y] = place(k), g = make('g', {}), title = make('title', {});
      const circle = make('circle', {cx: x, cy: y, r: many && k >= 0 ? Math.max(1.5, 160 / n) : 9, class: 'node'});
      const text = make('text', {x, y: y < cy ? y - 14 : y + 22, 'text-anchor': 'middle'});
      g.append(title, circle);
      if (!many || k < 0) g.append(text);
      dots.push([k, title, circle, text, g]);
    }
    drawn = {roster: run.roster, star: !!run.reducer, edges, dots};
    at('graph').setAttribute('class', many ? 'many' : '');
    at('graph').replaceChildren(...edges.map(e => e[2]), ...dots.map(d => d[4]));
  }
  const kind = k => k < 0 ? run.reducer[0] : kindOf(k), words = k => k < 0 ? run.reducer[1] : wordsOf(k);
  const name = k => k < 0 ? 'reducer' : names[k], told = [];
  const set = (element, look) => {if (element.getAttribute('class') !== look) element.setAttribute('class', look);};
  for (const [k, title, circle, text] of drawn.dots) {
    const its = kind(k);
    set(circle, 'node ' + its);
    if (many && k >= 0) circle.setAttribute('r', its === 'gone' ? 6 : Math.max(1.5, 160 / n));
    if (title.textContent !== name(k) + ': ' + words(k)) title.textContent = name(k) + ': ' + words(k);
    if (text.dataset.kind !== its) {text.dataset.kind = its; text.textContent = (MARK[its] || '') + ' ' + cut(name(k), 14);}
    if ((its === 'gone' || its === 'waits') && told.length < 20) told.push(name(k) + ': ' + words(k));
  }
  for (const [a, b, line] of drawn.edges) set(line, kind(a) === 'gone' || kind(b) === 'gone' ? 'edge off' : 'edge');
  at('graph').setAttribute('aria-label', (run.reducer ? 'A star of ' : 'A graph of ') + n + ' sites. ' +
    (told.join('; ') || 'None is gone.'));
}
// Pictures of cells.
const rgb = name => {const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim().slice(1);
  return (hex.length === 3 ? [...hex].map(c => c + c) : hex.match(/../g)).map(c => parseInt(c, 16));};
const mixed = (a, b, x) => `rgb(${a.map((from, k) => Math.round(from + (b[k] - from) * Math.min(1, Math.max(0, x)))).join()})`;
function sheet(canvas, rows, columns, height, labels, paint, {foot, widest = Infinity} = {}) {
  // Rows of cells with their labels on the left; what is under a point is found again by `spot`.
  const width = canvas.clientWidth, scale = window.devicePixelRatio || 1, tall = rows * height + (foot ? 18 : 4);
  if (canvas.style.height !== tall + 'px') canvas.style.height = tall + 'px';
  canvas.width = Math.round(width * scale); canvas.height = Math.round(tall * scale);
  const pen = canvas.getContext('2d'), left = Math.min(150, width * 0.3);
  const wide = Math.min(widest, (width - left) / Math.max(1, columns));
  pen.scale(scale, scale);
  pen.font = '12px ' + getComputedStyle(document.body).fontFamily;
  pen.fillStyle = `rgb(${rgb('--ink').join()})`; pen.textBaseline = 'middle';
  labels.forEach((label, k) => {
    let text = label;
    while (text.length > 1 && pen.measureText(text).width > left - 8) text = cut(text, text.length - 1);
    pen.fillText(text, 0, (k + 0.5) * height);
  });
  if (foot) {foot.forEach((text, k) => {pen.textAlign = k ? 'right' : 'left'; pen.fillText(text, k ? width : left, tall - 7);});}
  for (let y = 0; y < rows; y++) for (let x = 0; x < columns; x++) {
    const its = paint(y, x);
    if (!its) continue;
    pen.fillStyle = its[0];
    const thin = its[1] ? 0 : height * 0.3;
    pen.fillRect(left + x * wide, y * height + 0.5 + thin, Math.max(0.8, wide - (wide > 4 ? 0.5 : 0)), height - 1 - 2 * thin);
    if (its[2] && wide > 34) {
      pen.fillStyle = its[3]; pen.textAlign = 'center'; pen.fillText(its[2], left + (x + 0.5) * wide, (y + 0.5) * height + 1);
    }
  }
  canvas.spot = (px, py) => [Math.floor(py / height), Math.floor((px - left) / wide)];
  if (canvas.cursor) {
    const [y, x] = canvas.cursor;
    pen.strokeStyle = `rgb(${rgb('--ink').join()})`; pen.lineWidth = 2;
    pen.strokeRect(left + x * wide, y * height, Math.max(3, wide), height);
  }
}
const FIGURES = {
  late: {value: (k, x) => between(run.moments[x - Math.ceil(run.moments.length / 12)], run.moments[x], k), text: percent,
    name: 'errors of late'},
  error: {value: (k, x) => rate(run.moments[x], 'errors', k), text: percent, name: 'errors so far'},
  gain: {value: (k, x) => run.moments[x].gain_points ? run.moments[x].gain_points[k] : null, both: true,
    text: v => v == null ? '–' : (v > 0 ? '+' : '') + v.toFixed(2) + ' points', name: 'gain by sharing',
    sure: (k, x) => !!run.moments[x].effect[k]},
  noise: {value: (k, x) => run.moments[x].noise ? run.moments[x].noise[k] : null, text: percent, name: 'noise'},
  sent: {value: (k, x) => {const now = run.moments[x].bytes_sent[k], before = x ? run.moments[x - 1].bytes_sent[k] || 0 : 0;
    return now == null ? null : Math.max(0, now - before);}, text: size, name: 'bytes sent since the moment before'},
};
let shown = [];
function map(sites) {
  const figure = FIGURES[at('figure').value], columns = run.moments.length, last = columns - 1;
  if (sites.length > NAMED) {  // those that stand out most
    const worth = new Map(sites.map(k => [k, last < 0 ? 0 : Math.abs(figure.value(k, last) ?? 0)]));
    sites = sites.slice().sort((a, b) => worth.get(b) - worth.get(a)).slice(0, NAMED).sort((a, b) => a - b);
  }
  shown = sites;
  const values = sites.map(k => run.moments.map((_, x) => figure.value(k, x)));
  const known = values.flat().filter(v => v != null), most = Math.max(1e-9, ...known.map(Math.abs));
  const [low, high, less, mid, plus] = ['--low', '--high', '--less', '--mid', '--plus'].map(rgb);
  const color = v => figure.both ? mixed(mid, v < 0 ? less : plus, Math.abs(v) / most) : mixed(low, high, v / most);
  const rounds = run.moments.map(m => m.rounds);
  sheet(at('map'), sites.length, columns, 15, sites.map(k => run.roster.names[k]), (y, x) => {
    const v = values[y][x];
    return v == null ? null : [color(v), !figure.sure || figure.sure(sites[y], x)];
  }, {foot: columns ? ['round ' + rounds[0], 'round ' + rounds[last]] : []});
  const some = sites.length < run.roster.names.length ? `${sites.length} of ${run.roster.names.length} sites. ` : '';
  say('scale', !known.length ? 'Nothing is known of this.' : some + (figure.both ?
    `Blue is a gain, orange a loss, of up to ${figure.text(most).replace('+', '')}. Low cells: neither errors nor log loss can tell yet whether sharing helps.` :
    `From 0 (pale) to ${figure.text(most)} (strong).`));
  at('map').setAttribute('aria-label', `${figure.name} by site and time: a row for each of ${sites.length} sites, time from left to right. ` +
    'Arrow keys read a cell.');
  at('map').tell = ([y, x]) => say('cell', sites[y] === undefined || !run.moments[x] ? '' :
    `${run.roster.names[sites[y]]}, round ${rounds[x]}: ${figure.name} ${figure.text(values[y][x])}` +
    (figure.sure && run.moments[x].effect && run.moments[x].effect[sites[y]] != null ? `, ${run.roster.effects[run.moments[x].effect[sites[y]]]}` : ''));
  at('map').extent = [sites.length, columns];
}
function alike() {
  const its = run.alike, canvas = at('alike');
  canvas.hidden = !its;
  if (!its) {
    say('told', run.head.status !== 'running' ? 'There are no models to compare.' : run.head.driver === 'processes' ?
      'Not known yet: fewer than two nodes have kept a model.' : 'Known when the run has ended.');
    return;
  }
  const [less, mid, plus] = ['--less', '--mid', '--plus'].map(rgb), n = its.names.length;
  say('told', its.told + (its.shown === 'all sites' ? '' : ' Shown: ' + its.shown + '.'));
  canvas.setAttribute('aria-label', `Cosines of ${n} sites' models. ${its.told}`);
  const [paper, ink] = ['--paper', '--ink'].map(name => `rgb(${rgb(name).join()})`);
  sheet(canvas, n, n, n > 15 ? 13 : 22, its.names, (y, x) => {const v = its.cosines[y][x];
    return [mixed(mid, v < 0 ? less : plus, Math.abs(v)), true, v.toFixed(2), Math.abs(v) > 0.5 ? paper : ink];}, {widest: 60});
  canvas.tell = ([y, x]) => say('pair', its.names[y] === undefined || its.names[x] === undefined ? '' :
    `${its.names[y]} and ${its.names[x]}: ${its.cosines[y][x].toFixed(2)}`);
  canvas.extent = [n, n];
}
for (const [id, redraw] of [['map', () => map(found())], ['alike', alike]]) {
  const canvas = at(id);
  canvas.addEventListener('pointermove', event => {
    if (canvas.spot && canvas.tell) canvas.tell(canvas.spot(event.offsetX, event.offsetY));});
  canvas.addEventListener('keydown', event => {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (!step || !canvas.extent) return;
    event.preventDefault();
    const from = canvas.cursor || [-step[0], canvas.extent[1] - 1 - step[1]];
    canvas.cursor = from.map((value, k) => Math.min(canvas.extent[k] - 1, Math.max(0, value + step[k])));
    redraw(); canvas.tell(canvas.cursor);
  });
  canvas.addEventListener('blur', () => {canvas.cursor = null; if (run && run.moment) redraw();});
}
function show() {
  const head = run.head, limit = head.rounds_limit ? '/' + head.rounds_limit : '';
  say('name', head.name || 'drom-net watch');
  document.title = head.status + ': ' + (head.name || 'drom-net watch');
  say('status', `${head.status}: round ${head.rounds ?? 0}${limit}, errors ${percent(head.error_rate)}` +
    ` (majority ${percent(head.majority_error_rate)})` + (head.verdict && head.verdict.length ?
    '. ' + head.verdict[0][0].toUpperCase() + head.verdict[0].slice(1) : ''));
  say('said', head.status);
  const gone = Object.keys(run.states).filter(k => kindOf(k) === 'gone').map(k => run.roster.names[k]);
  if (run.reducer && run.reducer[0] === 'gone') gone.push('reducer');
  say('trouble', (head.error ? head.error + ' ' : '') + (gone.length ? gone.length + ' gone: ' + gone.slice(0, 5).join(', ') : ''));
  say('leaves', head.what_leaves || '');
  if (at('events').news !== run.events) {
    at('events').news = run.events;
    at('events').replaceChildren(...run.events.slice().reverse().map(event => {
      const item = document.createElement('li'), time = document.createElement('time');
      time.textContent = event.time ? String(event.time).slice(0, 19).replace('T', ' ') + ' ' : '';
      item.append(time, event.text);
      return item;
    }));
    if (!run.events.length) at('events').append(Object.assign(document.createElement('li'), {textContent: head.nothing}));
  }
  if (!run.moment) return;
  const sites = found(), sent = run.moment.bytes_sent.filter(b => b != null);
  say('bytes', sent.length ? `All sites together have sent ${size(sum(sent))} so far, of which ` +
    `the most by one: ${size(Math.max(...sent))}.` : '');
  table(sites); curve(sites); graph(); map(sites); alike();
}
function take(news) {
  if (news.roster) {
    run = news; if (run.moment && !run.moments.length) run.moments.push(run.moment);
    return;
  }
  const {kept, ...rest} = news;
  Object.assign(run, rest);
  if (!run.moment) return;
  if (!kept) run.moments.pop();
  for (const key of ['round', 'told']) if (run.moments.length) delete run.moments.at(-1)[key];
  run.moments.push(run.moment);
  if (run.moments.length > run.roster.most) run.moments = run.moments.filter((_, k) => k % 2 === 0 || k === run.moments.length - 1);
}
const again = () => {if (run && run.moment) show();};
at('filter').addEventListener('input', again);
at('which').addEventListener('change', again);
at('figure').addEventListener('change', again);
at('pause').addEventListener('click', () => {
  paused = !paused; at('pause').setAttribute('aria-pressed', paused); at('pause').textContent = paused ? 'Go on' : 'Pause';
  if (!paused && run) show();});
matchMedia('(prefers-color-scheme:dark)').addEventListener('change', again);
new ResizeObserver(again).observe(at('map'));
const source = new EventSource('/events' + location.search);
source.onmessage = event => {take(JSON.parse(event.data)); if (!paused) show();};
source.onerror = () => say('trouble', 'No connection to drom-net watch: what is shown may be old.');

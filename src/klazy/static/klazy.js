// The one script of klazy's pages: it draws charts with uPlot, sorts tables, and keeps pages of the service up to date.
// Without it a page has the same numbers, and pictures that do not move.
"use strict";
(() => {
  const UNITS = [[1e15, " P"], [1e12, " T"], [1e9, " G"], [1e6, " M"], [1, ""]];
  const FONT = "12px system-ui, sans-serif";
  const HOUR = 3600, DAY = 24 * HOUR;
  // Labels of a time axis: the least step, the usual text, and the second line where a year or a day begins.
  const TIMES = [
    [365 * DAY, "{YYYY}", null, null, null, null, null, null, 1],
    [28 * DAY, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [DAY, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [60, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
    [0.001, ":{ss}.{fff}", "\n{D} {MMM} {HH}:{mm}", null, "\n{D} {MMM} {HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
  ];
  const charts = new Map();

  // Colours are those of the stylesheet, so that a chart follows the theme.
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const fade = (name, share, ground = "transparent") => `color-mix(in srgb, ${colour(name)} ${100 * share}%, ${ground})`;
  const make = (tag, kind, text = "") => Object.assign(document.createElement(tag), { className: kind, textContent: text });
  const findUnit = (size) => UNITS.find(([factor]) => size >= factor) || [1, ""];

  function format(value, digits = 4) {
    if (value == null) return "–";
    const [factor, letter] = findUnit(Math.abs(value));
    const scaled = value / factor;
    const tens = scaled ? Math.floor(Math.log10(Math.abs(scaled))) : 0;
    if (tens < -4) return scaled.toPrecision(digits - 1) + letter;
    return Number(scaled.toFixed(Math.max(0, digits - 1 - tens))) + letter;
  }

  function formatTicks(_, values, __, ___, step) {
    const [factor, letter] = findUnit(Math.max(...values.map(Math.abs)));
    const isExact = (digits) => Math.abs(((step / factor) * 10 ** digits + 0.5) % 1 - 0.5) < 1e-6;
    const digits = [0, 1, 2, 3, 4, 5, 6, 7].find(isExact) ?? 8;
    return values.map((value) => (value ? (value / factor).toFixed(digits) + letter : "0"));
  }

  function formatPlace(spec, x) {
    if (!spec.time) return `${spec.xlabel} ${format(x, 7)}`;
    return new Date(1000 * x).toISOString().slice(0, 19).replace("T", " ");
  }

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.box = figure.querySelector(".canvas");
      this.legend = figure.querySelector(".legend");
      this.chooser = figure.querySelector("select");
      this.hidden = new Set();
      this.read(figure);
      this.chooser?.addEventListener("change", () => this.draw());
      new ResizeObserver(() => this.plot.setSize(this.size)).observe(this.box);
    }

    get size() {
      return { width: this.box.clientWidth, height: this.box.clientHeight };
    }

    // Take the data of this figure, or of the same one in a newer copy of the page.
    read(figure) {
      const text = figure.querySelector("script").textContent;
      if (text === this.text) return;
      this.text = text;
      this.spec = JSON.parse(text);
      this.draw();
    }

    draw() {
      const choice = this.spec.choices?.[this.chooser?.selectedIndex || 0] || {};
      const spec = { ...this.spec, ...choice };
      const scale = this.plot && this.isZoomed ? { ...this.plot.scales.x } : null;
      this.plot?.destroy();
      this.shown = spec;
      this.isZoomed = false;
      this.plot = new uPlot(this.describe(spec), this.arrange(spec), this.box);
      if (scale) this.plot.setScale("x", { min: scale.min, max: scale.max });
      this.list(spec);
    }

    // Shares are stacked: each line is the sum of those below it.
    arrange(spec) {
      if (spec.points) {
        const sorted = [...spec.points].sort((a, b) => a.x - b.x);
        return [sorted.map((point) => point.x), sorted.map((point) => point.y)];
      }
      let lines = spec.series.map((line) => line.y);
      if (spec.stacked) {
        const sums = new Array(spec.x.length).fill(0);
        lines = spec.series.map((line) => {
          if (!this.hidden.has(line.name)) line.y.forEach((value, i) => (sums[i] += value));
          return [...sums];
        });
      }
      lines = layer(spec).map((i) => lines[i]);
      const bands = (spec.bands || []).flatMap((band) => [band.high, band.low]);
      return [spec.x, ...lines, ...bands];
    }

    describe(spec) {
      const grid = { stroke: () => colour("line"), width: 1 };
      const axis = { stroke: () => colour("faint"), font: FONT, grid, ticks: { show: false }, labelFont: FONT, labelSize: 16, labelGap: 0 };
      const named = spec.series ? layer(spec).map((i) => spec.series[i]) : [];
      const bands = spec.bands || [];
      const edge = { points: { show: false }, width: 0 };
      const series = spec.points
        ? [{ paths: () => null, points: { show: false } }]
        : [...named.map((line) => this.describeLine(spec, line)), ...bands.flatMap(() => [edge, edge])];
      const across = { ...axis, label: spec.time ? undefined : spec.xlabel, space: 70, size: spec.time ? 42 : 26, gap: 4 };
      if (spec.time) across.values = TIMES;
      else if (spec.ticks) Object.assign(across, { splits: () => spec.ticks, filter: (_, at) => at, values: (_, at) => at.map((x) => format(x)) });
      else across.values = formatTicks;
      return {
        ...this.size,
        series: [{}, ...series],
        bands: bands.map((band, i) => ({
          series: [named.length + 2 * i + 1, named.length + 2 * i + 2],
          fill: () => fade(band.color, 0.16),
        })),
        axes: [across, { ...axis, values: formatTicks, label: spec.ylabel || undefined, size: measureTicks }],
        scales: {
          x: { time: !!spec.time, distr: spec.log ? 3 : 1, range: spec.points ? pad : hasBars(spec) ? makeRoom : undefined },
          y: { range: (_, low, high) => stretch(spec, low, high) },
        },
        tzDate: (seconds) => uPlot.tzDate(new Date(1000 * seconds), "Etc/UTC"),
        legend: { show: false },
        cursor: {
          sync: spec.sync ? { key: spec.sync, setSeries: false } : undefined,
          points: { show: !spec.points, size: 7 },
          drag: { x: true, y: !!spec.points },
        },
        hooks: {
          draw: [(plot) => (spec.points ? drawPoints(plot, spec) : drawLevels(plot, spec))],
          setCursor: [() => this.tell()],
          setScale: [(plot, key) => key === "x" && (this.isZoomed = this.isNarrowed(plot))],
        },
      };
    }

    isNarrowed(plot) {
      const x = plot.data[0];
      return plot.scales.x.min > x[0] || plot.scales.x.max < x[x.length - 1];
    }

    describeLine(spec, line) {
      const stroke = () => colour(line.color);
      const described = { label: line.name, stroke, width: line.style === "pale" ? 1 : 1.8, show: !this.hidden.has(line.name) };
      described.points = { show: line.style === "marked", size: 7, fill: stroke };
      if (line.style === "pale") described.stroke = () => fade(line.color, 0.5);
      if (line.style === "dash") described.dash = [6, 4];
      if (line.style === "step") described.paths = uPlot.paths.stepped({ align: 1 });
      if (line.style === "bar") described.paths = uPlot.paths.bars({ size: [0.8, 60] });
      if (line.style === "bar") described.fill = () => fade(line.color, 0.7);
      if (spec.stacked) Object.assign(described, { fill: () => fade(line.color, 0.75, colour("card")), width: 0.5, paths: uPlot.paths.stepped({ align: 1 }) });
      return described;
    }

    // The legend has the values where the pointer is, or else the last ones; a click hides or shows a line.
    list(spec) {
      this.legend.replaceChildren(make("li", "place"));
      for (const line of spec.series || []) {
        const button = make("button", `key ${line.style || ""}`);
        button.type = "button";
        button.style.setProperty("--key", `var(--${line.color})`);
        button.append(make("i", ""), make("span", "", line.name), make("b", ""));
        const show = () => button.setAttribute("aria-pressed", !this.hidden.has(line.name));
        show();
        button.addEventListener("click", () => {
          if (!this.hidden.delete(line.name)) this.hidden.add(line.name);
          show();
          if (spec.stacked) this.plot.setData(this.arrange(spec), !this.isZoomed);
          this.plot.setSeries(this.plot.series.findIndex((each) => each.label === line.name), { show: !this.hidden.has(line.name) });
        });
        const item = make("li", "");
        item.append(button);
        this.legend.append(item);
      }
      for (const key of spec.keys || []) this.legend.append(this.name(key, "key bar"));
      for (const band of spec.bands || []) {
        this.legend.append(this.name(band, "key area"));
        this.legend.lastChild.append(make("b", ""));
      }
      this.tell();
    }

    name(about, kind) {
      const item = make("li", kind);
      item.style.setProperty("--key", `var(--${about.color})`);
      item.append(make("i", ""), make("span", "", about.name));
      return item;
    }

    tell() {
      const { shown: spec, plot } = this;
      if (!plot || !this.legend.firstChild) return;
      const place = this.legend.firstChild;
      if (spec.points) {
        const near = findPoint(plot, spec);
        place.textContent = near ? `${near.name}: ${near.text}` : spec.hint;
        return;
      }
      const at = plot.cursor.idx ?? spec.x.length - 1;
      place.textContent = spec.names ? spec.names[at] : formatPlace(spec, spec.x[at]);
      const values = [
        ...spec.series.map((line) => format(line.y[at])),
        ...(spec.bands || []).map((band) => `${format(band.low[at], 3)} to ${format(band.high[at], 3)}`),
      ];
      this.legend.querySelectorAll("b").forEach((element, i) => (element.textContent = values[i]));
    }
  }

  // The first line is the one to see, and is drawn last; what is pale lies below all.
  function layer(spec) {
    const places = spec.series.map((_, i) => i).reverse();
    const isPale = (i) => spec.series[i].style === "pale";
    return [...places.filter(isPale), ...places.filter((i) => !isPale(i))];
  }

  const hasBars = (spec) => spec.series.some((line) => line.style === "bar");

  // Half a bar is beyond its place.
  function makeRoom({ data: [x] }, low, high) {
    const half = x.length > 1 ? (x[x.length - 1] - x[0]) / (x.length - 1) / 2 : 1;
    return [low - half, high + half];
  }

  function measureTicks(_, values) {
    return values ? 16 + 7 * Math.max(...values.map((text) => text.length)) : 50;
  }

  function pad(_, low, high) {
    const margin = 0.08 * (high - low) || 1;
    return [low - margin, high + margin];
  }

  // Limits are in the picture if they do not make the rest of it small.
  function stretch(spec, low, high) {
    if (low == null) return [0, 1];
    if (spec.points) return pad(null, low, high);
    const span = high - low || Math.abs(high) || 1;
    for (const level of spec.levels || []) {
      if (level.value > low - span && level.value < high + span) {
        low = Math.min(low, level.value);
        high = Math.max(high, level.value);
      }
    }
    if (spec.zero) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
    if (spec.stacked) return [0, high];
    const margin = 0.06 * (high - low || Math.abs(high) || 1);
    return [low === 0 ? 0 : low - margin, high === 0 ? 0 : high + margin];
  }

  function drawLevels(plot, spec) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    const levels = [...(spec.levels || [])];
    if (plot.scales.y.min < 0 && plot.scales.y.max > 0) levels.push({ value: 0 });
    ctx.save();
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.strokeStyle = ctx.fillStyle = colour("faint");
    ctx.textAlign = "right";
    for (const { name, value } of levels) {
      if (value < plot.scales.y.min || value > plot.scales.y.max) continue;
      const y = Math.round(plot.valToPos(value, "y", true));
      ctx.setLineDash(name ? [2 * ratio, 3 * ratio] : []);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      if (name) ctx.fillText(name, bbox.left + bbox.width - 4 * ratio, y + (y < bbox.top + 20 * ratio ? 14 : -5) * ratio);
    }
    ctx.strokeStyle = ctx.fillStyle = colour("alert");
    ctx.textAlign = "left";
    ctx.setLineDash([4 * ratio, 3 * ratio]);
    // Where marks are close, the first has its name.
    let free = -Infinity;
    for (const { name, x } of spec.marks || []) {
      if (x < plot.scales.x.min || x > plot.scales.x.max) continue;
      const left = Math.round(plot.valToPos(x, "x", true));
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
      if (left < free) continue;
      ctx.fillText(name, left + 3 * ratio, bbox.top + 10 * ratio);
      free = left + ctx.measureText(name).width + 8 * ratio;
    }
    ctx.restore();
  }

  // A name is next to its point, above it or below, where it covers nothing; the pointer shows the others.
  function drawPoints(plot, spec) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    const inside = (x, y) => x >= bbox.left && x <= bbox.left + bbox.width && y >= bbox.top && y <= bbox.top + bbox.height;
    const shown = spec.points
      .map((point) => ({ ...point, x: plot.valToPos(point.x, "x", true), y: plot.valToPos(point.y, "y", true) }))
      .filter(({ x, y }) => inside(x, y));
    const radius = (point) => (point.large ? 7 : 5) * ratio;
    const taken = shown.map((point) => [point.x - radius(point), point.y - radius(point), point.x + radius(point), point.y + radius(point)]);
    ctx.save();
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    for (const point of [...shown].reverse()) {
      ctx.fillStyle = colour(point.color);
      ctx.beginPath();
      ctx.arc(point.x, point.y, radius(point), 0, 2 * Math.PI);
      ctx.fill();
    }
    // The best come first, and have their names first.
    for (const { name, x, y } of [...shown].sort((a, b) => !!b.large - !!a.large)) {
      const width = ctx.measureText(name).width;
      const far = 10 * ratio, high = 16 * ratio;
      const places = [[x + far, y], [x - width - far, y], [x - width / 2, y - high], [x - width / 2, y + high]];
      const surround = ([left, middle]) => [left, middle - 7 * ratio, left + width, middle + 7 * ratio];
      const isFree = (box) => inside(box[0], box[1]) && inside(box[2], box[3]) &&
        !taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);
      const place = places.find((each) => isFree(surround(each)));
      if (!place) continue;
      taken.push(surround(place));
      ctx.fillStyle = colour("ink");
      ctx.fillText(name, ...place);
    }
    ctx.restore();
  }

  function findPoint(plot, spec) {
    const { left, top } = plot.cursor;
    if (left == null || left < 0) return null;
    const far = (point) => Math.hypot(plot.valToPos(point.x, "x") - left, plot.valToPos(point.y, "y") - top);
    return spec.points.reduce((a, b) => (far(b) < far(a) ? b : a));
  }

  function makeSortable(table) {
    const cells = (row, at) => row.cells[at].textContent.trim();
    table.querySelectorAll("thead th").forEach((head, at) => {
      const button = make("button", "sort", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const order = head.ariaSort === "ascending" ? "descending" : "ascending";
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const rows = [...table.tBodies[0].rows];
        const compare = (a, b) => cells(a, at).localeCompare(cells(b, at), "en", { numeric: true });
        const size = (row) => parseFloat(cells(row, at).replace("−", "-"));
        const isNumeric = rows.every((row) => !cells(row, at) || !isNaN(size(row)));
        // What is empty comes last.
        rows.sort(isNumeric ? (a, b) => (isNaN(size(a)) - isNaN(size(b))) || size(a) - size(b) : compare);
        table.tBodies[0].append(...(order === "ascending" ? rows : rows.reverse()));
      });
    });
  }

  function makeCopyable(block) {
    const words = block.textContent;
    const button = make("button", "copy", "Copy");
    button.type = "button";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(words);
      button.textContent = "Copied";
    });
    block.append(button);
  }

  // Ask for this page again, and take from it the data of charts and the parts marked with data-live.
  async function refresh(url = location.href) {
    const offline = document.querySelector("[data-offline]");
    try {
      const answer = await fetch(url);
      if (!answer.ok || answer.redirected) throw new Error(answer.statusText);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const old of document.querySelectorAll("[data-live]")) {
        const found = fresh.getElementById(old.id);
        if (found && !old.contains(document.activeElement)) old.replaceChildren(...found.childNodes);
      }
      for (const [figure, chart] of charts) {
        const found = fresh.getElementById(figure.id);
        if (found) chart.read(found);
      }
      document.body.dataset.refresh = fresh.body.dataset.refresh;
      if (offline) offline.hidden = true;
    } catch {
      if (offline) offline.hidden = false;
    }
  }

  async function follow() {
    await new Promise((resolve) => setTimeout(resolve, 1000 * document.body.dataset.refresh));
    if (!document.hidden) await refresh();
    follow();
  }

  // Browsers have no clipboard for pages that came over plain HTTP.
  if (navigator.clipboard) document.querySelectorAll(".command").forEach(makeCopyable);
  document.querySelectorAll("table.sortable").forEach(makeSortable);
  document.querySelectorAll("figure.plot").forEach((figure) => charts.set(figure, new Chart(figure)));
  const redraw = () => charts.forEach((chart) => chart.plot.redraw(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);
  // What takes the service a while is asked for once the page is there.
  const later = document.querySelector("a[data-fetch]");
  if (later) refresh(later.href);
  if (document.body.dataset.refresh) follow();
})();

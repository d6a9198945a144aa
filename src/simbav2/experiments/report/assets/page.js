"use strict";
// Sorts tables, shows the values of learning curves under the pointer, draws the metrics of single runs. All data come
// from the data block and are inserted as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "7 2.5", "2 2", "8 2.5 2 2.5"]; // as in the printed figures, so that lines differ in grey too

function element(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name in node && name !== "list") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function shape(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const colour = (index) => `var(--series-${index % 6})`;
const dash = (index) => DASHES[index % DASHES.length];

// Numbers -------------------------------------------------------------------------------------------------------

function brief(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
  if (size >= 1e4) return +(value / 1e3).toPrecision(3) + "k";
  if (size < 1e-3) return value.toExponential(0);
  return String(+value.toPrecision(3));
}

function exact(value) {
  if (value === null) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(3);
  return value.toLocaleString("en", { maximumFractionDigits: size < 10 ? 3 : 1 });
}

function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= raw);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(value);
  return found;
}

// Charts of single runs -------------------------------------------------------------------------------------------
// spec: {title, series: [{name, index, x, y, low, high}], published: {mean, low, high} or null}

const WIDTH = 400, HEIGHT = 220, LEFT = 44, RIGHT = 12, TOP = 10, BOTTOM = 24;

function chart(spec) {
  const host = element("div", { className: "chart" });
  host.append(element("h4", { textContent: spec.title }));
  const finite = (value) => value !== null;
  const xs = spec.series.flatMap((series) => series.x);
  const ys = spec.series.flatMap((series) => [...series.y, ...(series.low ?? []), ...(series.high ?? [])]).filter(finite);
  if (spec.published) ys.push(spec.published.mean, spec.published.low, spec.published.high);
  if (!ys.length || !xs.length) {
    host.append(element("p", { className: "caption", textContent: "nothing measured yet" }));
    return host;
  }
  const right = Math.max(...xs) || 1;
  let low = Math.min(...ys), high = Math.max(...ys);
  if (low >= 0 && low < 0.6 * high) low = 0;
  if (low === high) { low -= Math.abs(low) * 0.05 || 0.5; high += Math.abs(high) * 0.05 || 0.5; }
  high += (high - low) * 0.04;
  const px = (x) => LEFT + (x / right) * (WIDTH - LEFT - RIGHT);
  const py = (y) => HEIGHT - BOTTOM - ((y - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": spec.title });
  for (const value of ticks(low, high, 4)) {
    svg.append(shape("line", { class: "gridline", x1: LEFT, x2: WIDTH - RIGHT, y1: py(value), y2: py(value) }));
    svg.append(shape("text", { x: LEFT - 5, y: py(value) + 3.5, "text-anchor": "end" }, brief(value)));
  }
  for (const value of ticks(0, right, 4)) {
    svg.append(shape("text", { x: px(value), y: HEIGHT - 8, "text-anchor": "middle" }, brief(value)));
  }
  if (spec.published) {
    const { mean, low: bottom, high: top } = spec.published;
    const across = { x: LEFT, width: WIDTH - LEFT - RIGHT, y: py(top), height: Math.max(0, py(bottom) - py(top)) };
    svg.append(shape("rect", { class: "published-band", ...across }));
    svg.append(shape("line", { class: "published", x1: LEFT, x2: WIDTH - RIGHT, y1: py(mean), y2: py(mean) }));
  }
  for (const series of spec.series) {
    const group = shape("g", {});
    const points = series.x.map((x, at) => [x, series.y[at], at]).filter(([, y]) => finite(y));
    if (series.low) {
      const edge = (values, list) => list.filter(([, , at]) => finite(values[at])).map(([x, , at]) => `${px(x)},${py(values[at])}`);
      const outline = [...edge(series.low, points), ...edge(series.high, [...points].reverse())];
      group.append(shape("polygon", { class: "band", points: outline.join(" "), style: `fill:${colour(series.index)}` }));
    }
    const line = { class: "curve", points: points.map(([x, y]) => `${px(x)},${py(y)}`).join(" ") };
    const ink = `stroke:${colour(series.index)};stroke-dasharray:${dash(series.index) || "none"}`;
    group.append(shape("polyline", { ...line, style: ink }));
    if (points.length === 1) {
      group.append(shape("circle", { cx: px(points[0][0]), cy: py(points[0][1]), r: 3, style: `fill:${colour(series.index)}` }));
    }
    svg.append(group);
  }
  host.append(svg);
  const place = { left: LEFT / WIDTH, top: TOP / HEIGHT, width: (WIDTH - LEFT - RIGHT) / WIDTH, height: (HEIGHT - TOP - BOTTOM) / HEIGHT, last_step: right };
  hover(host, svg, [{ place, series: spec.series, published: spec.published }], new Set());
  return host;
}

// Values under the pointer ----------------------------------------------------------------------------------------
// panels: [{place, series, published}], with the place in fractions of the SVG; series in `hidden` are left out

function hover(host, svg, panels, hidden) {
  const cursor = shape("line", { class: "cursor", visibility: "hidden" });
  const tip = element("div", { className: "tip", hidden: true });
  const hide = () => {
    tip.hidden = true;
    cursor.setAttribute("visibility", "hidden");
  };
  svg.append(cursor);
  host.append(tip);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    const panel = panels.find(({ place }) => x >= place.left && x <= place.left + place.width && y >= place.top && y <= place.top + place.height);
    const lines = panel ? valuesAt(panel, (x - panel.place.left) / panel.place.width * panel.place.last_step, hidden) : [];
    if (!lines.length) return hide();
    const { place, published } = panel;
    const nearest = lines.reduce((best, line) => (line.distance < best.distance ? line : best)).step;
    tip.replaceChildren(element("div", { textContent: `step ${nearest.toLocaleString("en")}` }));
    for (const { step, series, text } of lines) {
      const name = element("span", { textContent: series.name });
      name.style.color = colour(series.index);
      const late = step === nearest ? "" : ` (at ${brief(step)})`;
      tip.append(element("div", {}, name, element("b", { textContent: text + late })));
    }
    if (published) tip.append(element("div", {}, element("span", { textContent: "SimbaV2 paper" }), element("b", { textContent: exact(published.mean) })));
    const across = place.left + nearest / place.last_step * place.width;
    const { width, height } = svg.viewBox.baseVal;
    for (const [name, value] of [["x1", across * width], ["x2", across * width], ["y1", place.top * height], ["y2", (place.top + place.height) * height]]) {
      cursor.setAttribute(name, value);
    }
    cursor.setAttribute("visibility", "visible");
    tip.hidden = false;
    const origin = host.getBoundingClientRect();
    const left = box.left - origin.left + across * box.width + 16;
    tip.style.left = `${Math.max(0, Math.min(left, host.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${box.top - origin.top + (place.top + place.height) * box.height + 4}px`;
  });
  svg.addEventListener("pointerleave", hide);
}

function valuesAt(panel, at, hidden) {
  return panel.series.filter((series) => series.x.length && !hidden.has(series.index)).map((series) => {
    const index = series.x.reduce((best, x, here) => (Math.abs(x - at) < Math.abs(series.x[best] - at) ? here : best), 0);
    const range = series.low && series.low[index] !== null ? ` [${exact(series.low[index])}, ${exact(series.high[index])}]` : "";
    return { step: series.x[index], distance: Math.abs(series.x[index] - at), series, text: exact(series.y[index]) + range };
  });
}

// Learning curves: drawn by the report; here their names hide them ------------------------------------------------

function prepareCurves() {
  const hidden = new Set();
  const legend = document.getElementById("legend");
  data.methods.forEach((name, index) => {
    const sample = shape("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" },
      shape("line", { x1: 0, x2: 30, y1: 5, y2: 5, style: `stroke:${colour(index)};stroke-width:2.5;stroke-dasharray:${dash(index) || "none"}` }));
    const button = element("button", { type: "button", "aria-pressed": "true" }, sample, element("span", { textContent: name }));
    button.addEventListener("click", () => {
      const off = !hidden.delete(index);
      if (off) hidden.add(index);
      button.setAttribute("aria-pressed", String(!off));
      for (const group of document.querySelectorAll(`#curve-figures g[id*="-series-${index}-"]`)) group.style.display = off ? "none" : "";
    });
    legend.append(button);
  });
  for (const [name, panels] of Object.entries(data.panels)) {
    const host = document.getElementById(`figure-${name}`);
    const named = panels.map((panel) => ({
      ...panel,
      series: panel.series.map((each) => ({ ...each, x: data.grids[each.x], name: data.methods[each.index] })),
    }));
    hover(host, host.querySelector("svg"), named, hidden);
  }
}

// Tables ---------------------------------------------------------------------------------------------------------

function sortBy(table, column, head) {
  const upwards = head.getAttribute("aria-sort") === "descending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", upwards ? "ascending" : "descending");
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
    const value = (row) => row.cells[column].dataset.value;
    const numeric = rows.every((row) => value(row) !== undefined);
    rows.sort((one, other) => {
      if (!numeric) {
        const order = one.cells[column].textContent.localeCompare(other.cells[column].textContent, "en", { numeric: true });
        return upwards ? order : -order;
      }
      const [a, b] = [value(one), value(other)];
      if (a === "" || b === "") return (a === "") - (b === ""); // what is unknown stays below, either way
      return upwards ? a - b : b - a;
    });
    body.append(...rows);
  }
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = element("button", { type: "button" }, ...head.childNodes);
    button.addEventListener("click", () => sortBy(table, column, head));
    head.replaceChildren(button);
  });
}

function filterRuns(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll("#runs-table tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
  }
}

// Single runs ----------------------------------------------------------------------------------------------------

function list(lines) {
  return element("ul", {}, ...lines.map((line) => element("li", { textContent: line })));
}

function showRun(index) {
  const run = data.runs[index];
  const dialog = document.getElementById("run");
  const part = (title, ...nodes) => (nodes.length ? [element("h4", { textContent: title }), ...nodes] : []);
  const facts = element("dl", {});
  for (const [name, value] of run.facts) facts.append(element("dt", { textContent: name }), element("dd", { textContent: value }));
  const single = { x: data.grids[run.curve.x], y: run.curve.y, low: run.curve.low, high: run.curve.high, index: 0, name: run.metric };
  const charts = element("div", { className: "charts" }, chart({ title: `${run.metric} at evaluation`, series: [single], published: run.published }));
  for (const [name, metric] of Object.entries(run.metrics)) {
    charts.append(chart({ title: name, series: [{ x: data.grids[metric.x], y: metric.y, index: 0, name }], published: null }));
  }
  const warnings = run.warnings.map(([step, name, text, remedy]) =>
    element("li", {}, element("b", { textContent: `${name} ` }), `${text} (step ${step.toLocaleString("en")}). ${remedy}`));
  const videos = run.videos.map(([name, source]) =>
    element("p", {}, element("video", { src: source, controls: true, preload: "none" }), element("br"), element("code", { textContent: name })));
  const config = JSON.stringify({ ...data.configs[run.config], seed: run.seed }, null, 2);
  dialog.querySelector("h3").textContent = run.title;
  dialog.querySelector(".body").replaceChildren(
    ...(run.failure ? [element("p", { className: "alert", textContent: `Failed: ${run.failure}` })] : []),
    ...(run.caveats.length ? [element("div", { className: "alert" }, list(run.caveats))] : []),
    ...part("Warnings of the health monitor", warnings.length ? element("ul", {}, ...warnings) : element("p", { textContent: "none" })),
    facts,
    ...part(`Scores, metrics and diagnostics over ${run.step_unit}`, charts),
    ...part("Videos", ...videos),
    ...part("Command", element("pre", { className: "command", textContent: run.command })),
    ...part("Versions", element("p", { textContent: data.versions[run.versions] })),
    element("details", {}, element("summary", { textContent: "Configuration" }), element("pre", { textContent: config })),
  );
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

function showLinkedRun() {
  const found = /^#run-(\d+)$/.exec(location.hash);
  const dialog = document.getElementById("run");
  if (found && data.runs[found[1]]) showRun(Number(found[1]));
  else if (dialog.open) dialog.close();
}

prepareCurves();
document.querySelectorAll("table").forEach(makeSortable);
document.getElementById("filter").addEventListener("input", (event) => filterRuns(event.target.value));
document.querySelector("#run .close").addEventListener("click", () => document.getElementById("run").close());
document.getElementById("run").addEventListener("close", () => {
  if (location.hash.startsWith("#run-")) history.replaceState(null, "", "#runs");
});
window.addEventListener("hashchange", showLinkedRun);
showLinkedRun();

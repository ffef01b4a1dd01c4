// What pages do beyond being read: tables sort and filter, charts draw, a click on a number shows its runs.
// Data come as scripts (see fgl_repro/web/scripts.py), since a page that is opened from disk may load nothing else.
"use strict";
window.fgl = (() => {
  const root = new URL("..", document.currentScript.src);
  const arrived = new Map();
  const asked = new Map();

  function script(path) {
    if (!asked.has(path)) {
      asked.set(path, new Promise((done, failed) => {
        const element = document.createElement("script");
        element.src = new URL(path, root);
        element.onload = done;
        element.onerror = () => failed(new Error(`${path} is missing`));
        document.head.append(element);
      }));
    }
    return asked.get(path);
  }

  async function load(name) {
    await script(`${name}.js`);
    return arrived.get(name);
  }

  let tables;
  function dataTables() {
    tables ??= load("assets/datatables").then(async (text) => {
      const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      return (await import(url)).default;
    });
    return tables;
  }

  // --- small things ---------------------------------------------------------------------------------------------

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  const row = (tag, values) => make("tr", {}, ...values.map((value) => make(tag, {}, String(value))));
  const told = (value, error) => (value === null || value === undefined ? "" : value.toFixed(error ? 4 : 2));
  const signed = (value) => (value === null || value === undefined ? "" : (value > 0 ? "+" : "") + value.toFixed(2));
  const megabytes = (bytes) => (bytes / 1e6).toPrecision(3);
  const wanted = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const cssClass = (verdict) => `fgl-${(verdict || "nothing").replaceAll(" ", "-")}`;

  function escaped(text) {
    const holder = document.createElement("span");
    holder.textContent = text ?? "";
    return holder.innerHTML;
  }

  // --- charts ---------------------------------------------------------------------------------------------------

  const drawn = new Map();
  const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F7F7F", "#882255"];

  function draw(element, chart) {
    const style = getComputedStyle(document.body);
    const ink = style.getPropertyValue("--md-default-fg-color").trim();
    const faint = style.getPropertyValue("--md-default-fg-color--lightest").trim();
    const dark = document.body.getAttribute("data-md-color-scheme") === "slate";
    const text = JSON.stringify(chart); // black would not be seen on black
    const seen = dark ? text.replaceAll("#000000ff", "#eeeeee").replaceAll("rgba(0,0,0,", "rgba(238,238,238,") : text;
    const { data, layout } = JSON.parse(seen);
    for (const [name, axis] of Object.entries(layout)) {
      if (/^[xy]axis/.test(name)) Object.assign(axis, { gridcolor: faint, linecolor: faint, automargin: !axis.domain });
    }
    Object.assign(layout, { font: { color: ink, size: 12 }, colorway: PALETTE, paper_bgcolor: "transparent", plot_bgcolor: "transparent" });
    drawn.set(element, chart);
    return Plotly.react(element, data, layout, { responsive: true, displaylogo: false });
  }

  async function chart(element) {
    const found = await load(element.dataset.script);
    await script("assets/plotly.min.js");
    const inner = make("div", { style: `min-width: ${Math.min(found.width, 900)}px` });
    element.append(inner);
    await draw(inner, found);
    element.dataset.ready = "yes";
  }

  // --- a table beside print -------------------------------------------------------------------------------------

  async function grid(element) {
    const data = await load(element.dataset.script);
    const DataTable = await dataTables();
    const panels = Object.fromEntries(data.panels.map((panel) => [panel.name, panel]));
    element.append(legend());
    for (const panel of data.panels) {
      element.append(make("h3", {}, panel.title));
      const holder = make("div", { class: "fgl-scroll" });
      element.append(holder);
      const table = wide(data, panel);
      holder.append(table);
      const best = panel.error ? ["asc", "desc", ""] : ["desc", "asc", ""]; // the best first
      const columnDefs = [{ targets: 0, orderSequence: ["asc", "desc", ""] }, { targets: "_all", orderSequence: best }];
      new DataTable(table, { paging: false, searching: false, info: false, order: [], columnDefs });
    }
    element.append(make("h2", { id: "cell-by-cell" }, "Cell by cell"));
    cells(element, data, panels, DataTable);
    element.dataset.ready = "yes";
  }

  function legend() {
    const words = ["reproduced", "within the spread", "differs", "no evidence"];
    const parts = words.map((word) => make("span", { class: `fgl-mark ${cssClass(word)}` }, word));
    const text = "Ours above, the printed number below it. A click shows the runs.";
    return make("p", { class: "fgl-legend" }, ...parts, ` ${text}`);
  }

  function wide(data, panel) {
    const columns = Object.keys(data.columns);
    const at = new Map(data.cells.filter((cell) => cell.panel === panel.name).map((c) => [`${c.method}|${c.column}`, c]));
    const methods = data.methods.filter((method) => columns.some((column) => at.has(`${method}|${column}`)));
    const table = make("table", { class: "fgl-wide display compact" });
    const head = make("tr", {}, make("th", {}, "method"), ...columns.map((c) => make("th", {}, data.columns[c])));
    const body = methods.map((method) => make("tr", {}, make("th", { scope: "row" }, method),
      ...columns.map((column) => square(at.get(`${method}|${column}`), panel))));
    table.append(make("thead", {}, head), make("tbody", {}, ...body));
    const beat = columns.map((column) => data.beat[`${panel.name}|${column}`] ?? {});
    const line = (title, text) => make("tr", {}, make("th", { scope: "row" }, title), ...beat.map((b) => make("td", {}, text(b))));
    table.append(make("tfoot", {},
      line("best here", (b) => (b.method ? `${told(b.mean, panel.error)} ${b.method}` : "")),
      line("best in print", (b) => (b.printed ? `${told(b.paper, panel.error)} ${b.printed}` : "")),
      line("told apart from", (b) => told(b.needed, panel.error))));
    table.querySelectorAll("tfoot tr")[2].title =
      "The mean that a new method needs for a t-test against the best here, at as many runs and the same std.";
    return table;
  }

  function square(cell, panel) {
    if (!cell) return make("td", {});
    const ours = cell.mean === null ? cell.status : told(cell.mean, panel.error);
    const worst = panel.error ? 1e9 : -1;
    const attributes = { "data-order": cell.mean ?? worst, class: cssClass(cell.verdict), title: sentence(cell) };
    const inner = make("button", { class: "fgl-cell", type: "button", onclick: () => show(cell, panel) },
      make("b", {}, ours), cell.std === null ? "" : make("small", {}, ` ± ${told(cell.std, panel.error)}`),
      make("br"), make("small", { class: "fgl-paper" }, printed(cell, panel) || "–"));
    return make("td", attributes, inner);
  }

  function printed(cell, panel) {
    if (cell.paper === null) return "";
    const text = told(cell.paper, panel.error) + (cell.paper_std === null ? "" : ` ± ${told(cell.paper_std, panel.error)}`);
    return cell.suspect ? `[${text}]` : text;
  }

  function sentence(cell) {
    const parts = [cell.verdict, cell.why, `${cell.seeds} of ${cell.wanted} seeds`];
    if (cell.gap !== null) parts.push(`${signed(cell.gap)} points`);
    if (cell.half !== null) parts.push(`interval ± ${cell.half}`);
    return parts.filter(Boolean).join(", ");
  }

  const FILTERS = { panel: 0, column: 1, method: 2, verdict: 9 };

  function cells(element, data, panels, DataTable) {
    const asked = wanted();
    const fits = (cell) => Object.entries(asked).every(([name, value]) => {
      if (name === "panel") return cell.panel === value;
      if (name === "method") return cell.id === value;
      if (name === "variant") return cell.method.endsWith(`(${value})`);
      if (name === "dataset") return cell.column.split(",")[0] === value;
      if (name === "clients") return cell.column.split(",")[1] === value;
      return true;
    });
    const chosen = data.cells.filter(fits);
    const rows = (chosen.length ? chosen : data.cells).map((cell) => {
      const panel = panels[cell.panel];
      return [panel.title, data.columns[cell.column], cell.method, told(cell.mean, panel.error), told(cell.std, panel.error),
        cell.seeds, printed(cell, panel), signed(cell.gap), cell.half ?? "", cell.verdict, cell.old, cell];
    });
    if (chosen.length && chosen.length < data.cells.length) {
      element.append(make("p", { class: "fgl-note" }, `${chosen.length} of ${data.cells.length} cells. `,
        make("a", { href: "#", onclick: () => setTimeout(() => location.reload()) }, "Show all")));
    }
    const titles = ["panel", "column", "method", "ours", "std", "seeds", "paper", "diff", "interval", "verdict", "old rule"];
    const table = make("table", { class: "fgl-long display compact" });
    element.append(make("div", { class: "fgl-filters" }), make("div", { class: "fgl-scroll" }, table));
    const api = new DataTable(table, {
      data: rows, columns: titles.map((title) => ({ title, render: { display: (x) => escaped(String(x)) } })), order: [],
      pageLength: 25, createdRow: (row, values) => row.classList.add(cssClass(values[9])),
    });
    filters(element.querySelector(".fgl-filters"), api, FILTERS);
    rowsOpen(table, api, (values) => show(values[11], panels[values[11].panel]));
    if (chosen.length === 1) show(chosen[0], panels[chosen[0].panel]);
  }

  function filters(holder, api, columns) {
    for (const [name, number] of Object.entries(columns)) {
      const values = [...new Set(api.column(number).data().toArray())].filter((value) => value !== "");
      if (values.length < 2) continue;
      const select = make("select", { "aria-label": name, name, onchange: (event) => {
        const value = event.target.value;
        api.column(number).search(value === "" ? "" : (cell) => String(cell) === value).draw();
      } }, make("option", { value: "" }, `every ${name}`), ...values.map((v) => make("option", { value: v }, String(v))));
      holder.append(select);
    }
  }

  function rowsOpen(table, api, open) {
    table.tBodies[0].addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      const values = row && api.row(row).data();
      if (values) open(values);
    });
  }

  // --- runs -----------------------------------------------------------------------------------------------------

  async function runs(element) {
    const DataTable = await dataTables();
    const lines = await load(element.dataset.script);
    const keys = (wanted().keys ?? "").split(",").filter(Boolean);
    const rows = keys.length ? lines.filter((line) => keys.includes(line[1])) : lines;
    if (keys.length) {
      element.append(make("p", { class: "fgl-note" }, `${rows.length} of ${lines.length} runs. `,
        make("a", { href: "#", onclick: () => setTimeout(() => location.reload()) }, "Show all")));
    }
    const titles = ["paper", "key", "method", "variant", "data set", "clients", "partitioner", "world", "protocol", "lr",
      "seed", "probe", "score", "seconds"];
    const table = make("table", { class: "fgl-long display compact" });
    element.append(make("div", { class: "fgl-filters" }), make("div", { class: "fgl-scroll" }, table));
    const columns = titles.map((title) => ({ title, render: { display: (x) => escaped(String(x ?? "")) } }));
    const api = new DataTable(table, { data: rows, columns, order: [], pageLength: 25, deferRender: true });
    filters(element.querySelector(".fgl-filters"), api, { paper: 0, method: 2, "data set": 4, protocol: 8 });
    const open = (line) => drawer(`${line[2]} on ${line[4]}`, "", [line[14]], null, line[11], "best");
    rowsOpen(table, api, open);
    if (keys.length && new Set(rows.map((line) => line[14])).size === 1) open(rows[0]);
    element.dataset.ready = "yes";
  }

  function show(cell, panel) {
    const ours = cell.mean === null ? cell.status : `${told(cell.mean, panel.error)}${cell.std === null ? "" : ` ± ${told(cell.std, panel.error)}`}`;
    const text = `Ours ${ours}, printed ${printed(cell, panel) || "nothing"}: ${sentence(cell)}.` +
      (cell.chosen ? ` Chosen by validation: ${cell.chosen}.` : "") + (cell.note ? ` ${cell.note}.` : "");
    const [dataset, clients] = cell.column.split(",");
    drawer(`${cell.method}, ${dataset}, ${clients} clients`, text, cell.files, cell.keys, cell.probe, cell.selection);
  }

  async function drawer(title, text, files, keys, probe, selection) {
    document.querySelector("dialog.fgl-drawer")?.remove();
    const close = make("button", { class: "fgl-close", type: "button", "aria-label": "close" }, "×");
    const body = make("div", { class: "md-typeset" }, make("h2", {}, title), make("p", {}, text));
    const dialog = make("dialog", { class: "fgl-drawer" }, close, body);
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    document.body.append(dialog);
    dialog.showModal();
    const found = (await Promise.all(files.map((file) => load(`runs/${file}`)))).flat()
      .filter((run) => !keys || keys.includes(run.record.key.slice(0, 8)));
    if (!found.length) {
      body.append(make("p", {}, "No run of it is here."));
    } else {
      body.append(runTable(found, probe), ...commands(found));
      await script("assets/plotly.min.js");
      await clients(body, found, probe, selection);
      await curves(body, found, probe);
      body.append(...details(found));
    }
    dialog.dataset.ready = "yes";
  }

  const score = (run, probe, at) => {
    const found = run.record.metrics[probe]?.[at];
    if (!found || found.accuracy === null) return "";
    return found.metric === "mae" ? told(found.accuracy, true) : told(100 * found.accuracy);
  };

  const duration = (seconds) => (seconds < 90 ? `${seconds.toFixed(1)} s` : `${(seconds / 60).toFixed(1)} min`);

  function sum(run, direction) {
    return run.sent.filter((line) => line.direction === direction).reduce((all, line) => all + line.bytes, 0);
  }

  function runTable(found, probe) {
    const heads = ["seed", "key", "round", `${probe}, that round`, "last round", "time", "MB up", "MB down"];
    const lines = found.map((run) => [run.record.config.seed, run.record.key.slice(0, 8),
      run.record.selection.best_round + 1, score(run, probe, "best"), score(run, probe, "last"),
      duration(run.record.seconds.total), megabytes(sum(run, "up")), megabytes(sum(run, "down"))]);
    return make("div", { class: "fgl-scroll" }, make("table", { class: "fgl-plain" },
      make("thead", {}, row("th", heads)), make("tbody", {}, ...lines.map((line) => row("td", line)))));
  }

  function commands(found) {
    const lines = found.map((run) => `fgl-table rerun ${run.record.key.slice(0, 8)}`).join("\n");
    return [make("p", {}, "To repeat them:"), make("pre", {}, make("code", {}, lines))];
  }

  async function clients(body, found, probe, selection) {
    const own = found.map((run) => [run, run.record.metrics[probe]?.[selection]]).filter(([, measured]) => measured);
    if (!own.length) return;
    const scale = own[0][1].metric === "mae" ? 1 : 100;
    const data = own.map(([run, measured]) => ({
      type: "bar", name: `seed ${run.record.config.seed}`, x: measured.clients.map((_, k) => k),
      y: measured.clients.map((value) => (value === null ? null : scale * value)), customdata: measured.counts,
      hovertemplate: "client %{x}: %{y:.2f} on %{customdata} rows<extra>%{fullData.name}</extra>",
    }));
    await smallChart(body, `${probe}, client by client`, data, "client");
  }

  async function curves(body, found, probe) {
    const names = ["validation", probe, "loss"].filter((name) => found.some((run) => run.curves[name]));
    if (!names.length) return;
    const holder = make("div", {});
    const select = make("select", { "aria-label": "curve", onchange: () => redraw(select.value) },
      ...[...new Set(names)].map((name) => make("option", { value: name }, name)));
    body.append(make("h3", {}, "Curves ", select), holder);
    const redraw = async (name) => {
      holder.replaceChildren();
      const scale = name === "loss" || found[0].record.metrics[probe]?.best?.metric === "mae" ? 1 : 100;
      const data = found.filter((run) => run.curves[name]).map((run) => ({
        type: "scatter", mode: "lines", name: `seed ${run.record.config.seed}`,
        x: run.curves[name].map((_, round) => round + 1), y: run.curves[name].map((v) => (v === null ? null : scale * v)),
      }));
      await smallChart(holder, "", data, "round");
    };
    await redraw(names[0]);
  }

  async function smallChart(body, title, data, xtitle) {
    const holder = make("div", { class: "fgl-small-chart" });
    body.append(...(title ? [make("h3", {}, title)] : []), holder);
    const layout = { height: 240, margin: { l: 45, r: 10, t: 10, b: 40 }, xaxis: { title: { text: xtitle } }, yaxis: {}, showlegend: true,
      legend: { orientation: "h", y: 1.15 } };
    await draw(holder, { data, layout });
  }

  function bytes(run) {
    const lines = run.sent.map((line) => row("td", [line.phase, line.direction, line.field, line.bytes.toLocaleString("en")]));
    return make("table", { class: "fgl-plain" }, make("thead", {}, row("th", ["phase", "direction", "field", "bytes"])),
      make("tbody", {}, ...lines));
  }

  function details(found) {
    const json = (value) => make("pre", {}, make("code", {}, JSON.stringify(value, null, 1)));
    const parts = [make("details", {}, make("summary", {}, "Bytes of a client, by message"), bytes(found[0])),
      make("details", {}, make("summary", {}, "Configuration (but for the seed)"), json(found[0].record.config))];
    for (const run of found) {
      const { key, config } = run.record;
      parts.push(make("details", {}, make("summary", {}, `Record of seed ${config.seed}, ${key.slice(0, 8)}`), json(run.record)));
    }
    return parts;
  }

  // --- every page -----------------------------------------------------------------------------------------------

  async function plain() {
    const found = [...document.querySelectorAll(".md-content .md-typeset table:not([class])")]
      .filter((table) => table.tHead && table.tBodies[0]?.rows.length > 3);
    if (!found.length) return;
    const DataTable = await dataTables();
    for (const table of found) {
      const many = table.tBodies[0].rows.length > 12;
      table.classList.add("fgl-sorted");
      new DataTable(table, { paging: false, info: false, searching: many, order: [], autoWidth: false });
    }
  }

  function start() {
    const kinds = { ".fgl-chart": chart, ".fgl-grid": grid, ".fgl-runs": runs };
    for (const [selector, fill] of Object.entries(kinds)) {
      for (const element of document.querySelectorAll(selector)) {
        fill(element).catch((error) => element.append(make("p", { class: "fgl-note" }, `This cannot be shown: ${error.message}.`)));
      }
    }
    plain();
    const dark = () => document.documentElement.classList.toggle("dark", document.body.getAttribute("data-md-color-scheme") === "slate");
    dark();
    new MutationObserver(() => {
      dark();
      for (const [element, found] of drawn) if (element.isConnected) draw(element, found);
    }).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
    window.addEventListener("hashchange", () => { if (document.querySelector(".fgl-grid, .fgl-runs") && location.hash.includes("=")) location.reload(); });
  }

  document.addEventListener("DOMContentLoaded", start);
  return { put: (name, content) => arrived.set(name, content) };
})();
